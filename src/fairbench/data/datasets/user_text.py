"""A user's text: a file, or a folder of files of one kind, in splits if they are named after them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.data.formats.delimited_text import cut_text, split_texts
from fairbench.data.formats.raw import Texts
from fairbench.data.formats.source_files import ASIDE, SourceFiles, files_in, size_of
from fairbench.data.formats.split_names import named_splits
from fairbench.data.formats.text_records import FIELDS, SUFFIXES, has_records, record_texts

LONGEST = 1 << 14
"""Short enough to split a file of some hundred kilobytes."""
KINDS = (".txt", ".raw", ".tokens", *SUFFIXES)
"""Suffixes of the files that are read from a folder."""


def read(source: SourceFiles, options: Mapping[str, Any]) -> Texts:
    """The texts of all files; files or folders that are named after splits are these splits.

    Raises:
        UsageError: a folder has no file of a known kind, files of several, or some that are of no split.
    """
    path, dropped = source.files[0].path, {}
    files = [path]
    if path.is_dir():
        every = files_in(path)
        files = _of_one_kind(path, every)
        dropped = {
            f"files that are no {files[0].suffix}": len(every) - len(files),
            ASIDE: len(files_in(path, aside=True)),
        }
    names = {file: file.relative_to(path).with_suffix("").as_posix() if path.is_dir() else "" for file in files}
    splits = named_splits(names.values(), path) or dict.fromkeys(names.values(), "train")
    return Texts(
        {
            split: partial(_texts, [x for x in files if splits[names[x]] == split])
            for split in sorted({*splits.values()})
        },
        sum(map(size_of, files)),
        f"the files in the order of their names, cut at <|endoftext|>, or the field {' or '.join(FIELDS)} of their "
        f"records; a text of more than {LONGEST:,} bytes is cut after its last line end before that; without white "
        "space around them",
        options["vocabulary"],
        dropped,
    )


def _of_one_kind(folder: Path, files: Sequence[Path]) -> list[Path]:
    kinds = {kind: [file for file in files if file.suffix.lower() == kind] for kind in KINDS}
    found = {kind: of_kind for kind, of_kind in kinds.items() if of_kind}
    if not found:
        raise UsageError(f"{folder} contains no {', '.join(KINDS)} files")
    if len(found) > 1:
        counts = " and ".join(f"{len(of_kind)} {kind} files" for kind, of_kind in found.items())
        raise UsageError(f"{folder} contains {counts}; give a folder with the texts alone, or one file")
    return next(iter(found.values()))


def _texts(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        if has_records(path):
            for text in record_texts(path):
                yield from cut_text(text, LONGEST)
        else:
            yield from split_texts(path, LONGEST)
