"""TinyStories: text files with a separator, or the column `text` of the hub's parquet (V1 only)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairbench.data.formats import parquet
from fairbench.data.formats.delimited_text import split_texts
from fairbench.data.formats.raw import Texts
from fairbench.data.formats.source_files import SourceFiles, size_of

LONGEST = 1 << 20
"""Longer than any story: it bounds the memory where a file has no separator."""


def read(source: SourceFiles, options: Mapping[str, Any]) -> Texts:
    """The stories; the official validation split is the test split."""
    size = {".parquet": parquet.uncompressed_size}
    return Texts(
        {split: partial(_stories, source.of_split(split)) for split in ("train", "test")},
        sum(size.get(file.path.suffix, size_of)(file.path) for file in source.files),
        "stories, separated by <|endoftext|> or by rows, without white space around them, in the order of the source",
        options["vocabulary"],
    )


def _stories(paths: Sequence[Path]) -> Iterator[bytes]:
    for path in paths:
        if path.suffix == ".parquet":
            yield from parquet.texts(path, "text")
        else:
            yield from split_texts(path, LONGEST)
