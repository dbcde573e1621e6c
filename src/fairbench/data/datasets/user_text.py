"""A user's text: a file, or a folder of files of one kind, in splits if they are named after them."""

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError, one_line
from fairbench.data.formats.delimited_text import CHUNK, cut_text, decode_utf8, split_texts
from fairbench.data.formats.raw import Texts, named_splits
from fairbench.data.formats.source_files import ASIDE, SourceFiles, files_in, size_of

LONGEST = 1 << 14
"""Short enough to split a file of some hundred kilobytes."""
KINDS = (".txt", ".raw", ".tokens", ".jsonl", ".ndjson", ".json", ".csv", ".tsv")
"""Suffixes of the files that are read from a folder; those from .jsonl on have records."""
FIELDS = ("text", "story", "content")
"""The names that the field of the text may have in a record."""


def read(source: SourceFiles, options: Mapping[str, Any]) -> Texts:
    """The texts of all files; files or folders that are named after splits are these splits."""
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
    of_split = {split: [x for x in files if splits[names[x]] == split] for split in sorted({*splits.values()})}
    return Texts(
        {split: partial(_texts, within) for split, within in of_split.items()},
        sum(map(size_of, files)),
        f"the files in the order of their names, cut at <|endoftext|>, or the field {' or '.join(FIELDS)} of their "
        f"records; a text of more than {LONGEST:,} bytes is cut after its last line end before that; without white "
        "space around them",
        options["vocabulary"],
        dropped,
    )


def _of_one_kind(folder: Path, files: Sequence[Path]) -> list[Path]:
    kinds = sorted({file.suffix.lower() for file in files}.intersection(KINDS))
    if len(kinds) != 1:
        found = f"both {' and '.join(kinds)} files" if kinds else f"no {', '.join(KINDS)} files"
        raise UsageError(f"{folder} contains {found}; give a folder with texts of one kind, or one file")
    return [file for file in files if file.suffix.lower() == kinds[0]]


def _texts(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        if path.suffix.lower() in KINDS[3:] or _has_json_lines(path):
            for text in _record_texts(path):
                yield from cut_text(text, LONGEST)
        else:
            yield from split_texts(path, LONGEST)


def _has_json_lines(path: Path) -> bool:
    with path.open("rb") as file, suppress(ValueError, RecursionError):
        return isinstance(json.loads(file.readline(CHUNK)), dict)
    return False


def _record_texts(path: Path) -> Iterator[bytes]:
    """The text of each record of a file. Raises `UsageError` if it is not certain, or the file is damaged."""
    number = 0
    try:
        for number, record in enumerate(_records(path), 1):
            where, fields = f"{path}, record {number}", record if isinstance(record, dict) else {"text": record}
            found = [fields[name] for name in FIELDS if isinstance(fields.get(name), str)]
            if len(found) != 1:
                there = f"{', '.join(FIELDS)} must be there, with the text; there are {', '.join(map(str, fields))}"
                raise UsageError(f"{where}: exactly one of the fields {there}")
            decode_utf8(data := found[0].encode("utf-8", "surrogatepass"), where)
            yield data
    except (csv.Error, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged after record {number} ({one_line(error)}); correct it") from error


def _records(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        if path.suffix.lower() in (".csv", ".tsv"):
            csv.field_size_limit(sys.maxsize)
            yield from csv.DictReader(file, delimiter="," if path.suffix.lower() == ".csv" else "\t")
        elif path.suffix.lower() == ".json" and not _has_json_lines(path):
            records = json.load(file)
            yield from records if isinstance(records, list) else [records]
        else:
            yield from (json.loads(line) for line in file if line.strip())
