"""A user's text: a file, or a folder of files of one kind. Files or folders may be named after splits."""

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError, one_line
from fairbench.data.formats.delimited_text import CHUNK, cut_text, decode_utf8, split_texts
from fairbench.data.formats.raw import Texts, named_splits
from fairbench.data.formats.source_files import ASIDE, SourceFiles, files_in, size_of

LONGEST = 1 << 14
"""The largest number of bytes of a text. It is small enough to split a file of some hundred kilobytes."""
RECORD_KINDS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
"""The suffixes of files with records."""
KINDS = (".txt", ".raw", ".tokens", *RECORD_KINDS)
"""The suffixes of the files that are read from a folder."""
FIELDS = ("text", "story", "content")
"""The names that the field with the text may have in a record."""


def read(source: SourceFiles, options: Mapping[str, Any]) -> Texts:
    """The texts of all files, in the splits that files or folders are named after."""
    path = source.files[0].path
    files = [path]
    dropped: dict[str, int] = {}
    if path.is_dir():
        every = files_in(path)
        files = _of_one_kind(path, every)
        dropped[f"files that are no {files[0].suffix}"] = len(every) - len(files)
        dropped[ASIDE] = len(files_in(path, only_aside=True))
    return Texts(
        splits={split: partial(_texts, within) for split, within in _by_split(path, files).items()},
        size=sum(size_of(file) for file in files),
        processing=(
            f"the files in the order of their names, cut at <|endoftext|>, or the field {' or '.join(FIELDS)} of their "
            f"records; a text of more than {LONGEST:,} bytes is cut after its last line end before that; without white "
            "space around them"
        ),
        vocabulary=options["vocabulary"],
        dropped=dropped,
    )


def _by_split(path: Path, files: Sequence[Path]) -> dict[str, list[Path]]:
    """The files of each split. If they are not named after splits, all files are in train."""
    if not path.is_dir():
        return {"train": list(files)}
    names = {file: file.relative_to(path).with_suffix("").as_posix() for file in files}
    split_of_name = named_splits(names.values(), path)
    if not split_of_name:
        return {"train": list(files)}
    files_of_split: dict[str, list[Path]] = {split: [] for split in sorted(set(split_of_name.values()))}
    for file, name in names.items():
        files_of_split[split_of_name[name]].append(file)
    return files_of_split


def _of_one_kind(folder: Path, files: Sequence[Path]) -> list[Path]:
    """The files with a suffix in `KINDS`. Raises `UsageError` if there are none, or several kinds of them."""
    suffixes = {file.suffix.lower() for file in files}
    kinds = sorted(suffixes.intersection(KINDS))
    if len(kinds) != 1:
        found = f"no {', '.join(KINDS)} files"
        if kinds:
            found = f"both {' and '.join(kinds)} files"
        raise UsageError(f"{folder} contains {found}; give a folder with texts of one kind, or one file")
    return [file for file in files if file.suffix.lower() == kinds[0]]


def _texts(files: Sequence[Path]) -> Iterator[bytes]:
    """The texts of files, cut if they are longer than `LONGEST`."""
    for path in files:
        if path.suffix.lower() in RECORD_KINDS or _has_json_lines(path):
            for text in _record_texts(path):
                yield from cut_text(text, LONGEST)
        else:
            yield from split_texts(path, LONGEST)


def _has_json_lines(path: Path) -> bool:
    """Whether the first line of a file is a JSON object; the file then has a record in each line."""
    with path.open("rb") as file:
        try:
            first = json.loads(file.readline(CHUNK))
        except (ValueError, RecursionError):
            return False
    return isinstance(first, dict)


def _record_texts(path: Path) -> Iterator[bytes]:
    """The text of each record of a file, in UTF-8.

    Raises:
        UsageError: the text of a record is not certain, or the file is damaged.
    """
    number = 0  # an error before the first record names record 0
    try:
        for number, record in enumerate(_records(path), 1):
            where = f"{path}, record {number}"
            text = _text_of(record, where)
            # JSON may escape half of a pair of surrogates, which is not UTF-8: decoding then raises the error.
            data = text.encode("utf-8", "surrogatepass")
            decode_utf8(data, where)
            yield data
    except (csv.Error, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged after record {number} ({one_line(error)}); correct it") from error


def _text_of(record: Any, where: str) -> str:
    """The text of a record: the value of its field in `FIELDS`, or the record itself if it has no fields."""
    fields = record if isinstance(record, dict) else {"text": record}
    texts: list[str] = []
    for name in FIELDS:
        value = fields.get(name)
        if isinstance(value, str):
            texts.append(value)
    if len(texts) != 1:
        present = ", ".join(str(name) for name in fields)
        raise UsageError(
            f"{where}: exactly one of the fields {', '.join(FIELDS)} must be there, with the text; there are {present}"
        )
    return texts[0]


def _records(path: Path) -> Iterator[Any]:
    """The records of a CSV or TSV file, a JSON file, or a file with a JSON value in each line."""
    suffix = path.suffix.lower()
    with path.open(encoding="utf-8-sig", newline="") as file:
        if suffix in (".csv", ".tsv"):
            csv.field_size_limit(sys.maxsize)
            delimiter = "," if suffix == ".csv" else "\t"
            yield from csv.DictReader(file, delimiter=delimiter)
        elif suffix == ".json" and not _has_json_lines(path):
            records = json.load(file)
            if isinstance(records, list):
                yield from records
            else:
                yield records
        else:
            for line in file:
                if line.strip():
                    yield json.loads(line)
