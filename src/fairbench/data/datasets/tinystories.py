"""TinyStories: text files with a separator between stories, the same from the authors and from the hub."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from fairbench.data.formats.delimited_text import split_texts
from fairbench.data.formats.raw import Texts
from fairbench.data.formats.source_files import SourceFiles, size_of

LONGEST = 1 << 20
"""The largest number of bytes of a text: more than any story has. It bounds the memory if a file has no separator."""


def read(source: SourceFiles, options: Mapping[str, Any]) -> Texts:
    """The stories; the official validation split is the test split."""
    paths = {file.split: file.path for file in source.files}
    return Texts(
        splits={split: partial(split_texts, paths[split], LONGEST) for split in ("train", "test")},
        size=sum(size_of(path) for path in paths.values()),
        processing="stories, separated by <|endoftext|>, without white space around them, in the order of the source",
        vocabulary=options["vocabulary"],
    )
