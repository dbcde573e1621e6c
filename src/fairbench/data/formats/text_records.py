"""Texts in records: JSON lines, a JSON list, or a table of comma- or tab-separated values."""

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError, one_line
from fairbench.data.formats.delimited_text import CHUNK, decode_utf8

FIELDS = ("text", "story", "content")
"""The names that the field of the text may have."""
TABLES = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
SUFFIXES = (*LINES, ".json", *TABLES)


def has_records(path: Path) -> bool:
    """Whether a file has records: by its suffix, or since its first line is a record, whatever it is called."""
    return path.suffix.lower() in (*LINES, *TABLES) or _has_json_lines(path) or path.suffix.lower() == ".json"


def record_texts(path: Path) -> Iterator[bytes]:
    """The text of each record, without surrounding white space.

    Raises:
        UsageError: a record has no field of a text, or several, or the file is damaged.
    """
    number = 0
    try:
        for number, record in enumerate(_records(path), 1):
            yield _text(record, f"{path}, record {number}").strip()
    except (csv.Error, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged after record {number} ({one_line(error)}); correct it") from error


def _text(record: Any, where: str) -> bytes:
    fields = record if isinstance(record, dict) else {"text": record}
    found = [name for name in FIELDS if isinstance(fields.get(name), str)]
    if len(found) != 1:
        reason = f"has the fields {', '.join(map(str, fields))}" if fields is record else f"is {type(record).__name__}"
        raise UsageError(f"{where} {reason}; exactly one of {', '.join(FIELDS)} must be there, with the text")
    data = str(fields[found[0]]).encode("utf-8", "surrogatepass")
    decode_utf8(data, where)
    return data


def _records(path: Path) -> Iterator[Any]:
    suffix = path.suffix.lower()
    with path.open(encoding="utf-8-sig", newline="") as file:
        if suffix in TABLES:
            csv.field_size_limit(sys.maxsize)
            yield from csv.DictReader(file, delimiter=TABLES[suffix])
        elif suffix in LINES or _has_json_lines(path):
            yield from (json.loads(line) for line in file if line.strip())
        elif isinstance(records := json.load(file), list):
            yield from records
        else:
            raise UsageError(f"{path} is no list of records; write one, or a record on each line")


def _has_json_lines(path: Path) -> bool:
    with path.open("rb") as file, suppress(ValueError, RecursionError):
        return isinstance(json.loads(file.readline(CHUNK)), dict)
    return False
