"""A user's text: a file, or a folder of .txt files."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.data.formats.delimited_text import split_texts
from fairbench.data.formats.raw import Texts
from fairbench.data.formats.source_files import SourceFiles, files_in, size_of

LONGEST = 1 << 14
"""Short enough to split a file of some hundred kilobytes."""


def read(source: SourceFiles, options: Mapping[str, Any]) -> Texts:
    """The texts of all files."""
    path = source.files[0].path
    files = [file for file in files_in(path) if file.suffix == ".txt"] if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path} contains no .txt files")
    return Texts(
        {"train": partial(_texts, files)},
        sum(map(size_of, files)),
        f"the files in the order of their names, cut at <|endoftext|>; a text of more than {LONGEST:,} bytes is cut "
        "after its last line end before that; without white space around them",
        options["vocabulary"],
    )


def _texts(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        yield from split_texts(path, LONGEST)
