"""The rows in a text: JSON lines, a document of JSON, or a table with commas or tabs."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairbench.training.result_names import WrongResults

Row = tuple[str, Mapping[str, Any]]
"""The file and the line of a report, for errors, and the values by their names in the file."""
PRINTED_NUMBER = re.compile(r"(?<=[\s:,\[])([-+]?)(nan|inf)(?:inity)?(?:\(\w*\))?(?=\s*[,}\]])", re.IGNORECASE)
"""A number that is not finite, as printf writes it into JSON."""


def json_lines(name: str, text: str, first: int) -> Iterator[Row]:
    """The rows of JSON lines. `first` is the number of the first line."""
    for number, line in enumerate(text.splitlines(), first):
        where = f"{name}, line {number}"
        if not line.strip():
            continue
        try:
            row = parsed_json(line)
        except ValueError as error:
            raise WrongResults(
                f"{where} is no whole line of JSON ({error}): {line[:80]!r}; write it at once"
            ) from error
        if not isinstance(row, dict):
            raise WrongResults(f'{where} must be as {{"step": 10, "val/loss": 1.5}}, got {line[:80]!r}')
        yield where, flat(row)


def parsed_json(text: str) -> Any:
    """The value of a JSON text, which may have nan and inf as printf writes them. Raises ValueError."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(PRINTED_NUMBER.sub(_as_json, text))


def _as_json(number: re.Match[str]) -> str:
    """A number that is not finite as Python's JSON has it."""
    sign, word = number.groups()
    if word.lower() == "nan":
        return "NaN"
    return "-Infinity" if sign == "-" else "Infinity"


def flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A row with the values of nested objects by their path, such as "val/loss"."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            values.update(flat(value, f"{prefix}{name}/"))
        else:
            values[f"{prefix}{name}"] = value
    return values


def json_document(name: str, text: str) -> Iterator[Row]:
    """The rows of a file with one JSON value, or with JSON lines.

    The value may be an object, a list of objects, an object of columns, or an object that has a list of objects.
    """
    try:
        document = parsed_json(text)
    except ValueError:
        yield from json_lines(name, text, 1)
        return
    for number, row in enumerate(_rows_in(document), 1):
        yield f"{name}, report {number}", row


def _rows_in(document: Any) -> list[dict[str, Any]]:
    """The rows in a JSON value."""
    if isinstance(document, list):
        return [flat(entry) for entry in document if isinstance(entry, dict)]
    if not isinstance(document, dict):
        return []
    values = flat(document)
    lists = {key: value for key, value in values.items() if isinstance(value, list)}
    for entries in lists.values():
        if entries and all(isinstance(entry, dict) for entry in entries):
            return [flat(entry) for entry in entries]
    alone = {key: value for key, value in values.items() if key not in lists}
    longest = max(map(len, lists.values()), default=0)
    rows = []
    for index in range(longest):
        rows.append({key: column[index] for key, column in lists.items() if index < len(column)})
    if not rows:
        return [alone]
    rows[-1].update(alone)
    return rows


def delimited(name: str, text: str, first: int, names: str) -> Iterator[Row]:
    """The rows of lines with delimiters, with the names in the first line of the file.

    Args:
        name: the name of the file, for errors.
        text: the lines of an attempt. It may repeat the line of names.
        first: the number of the first line.
        names: the line of names.
    """
    delimiter = max(",\t;", key=names.count)
    header = _cells(next(csv.reader([names], delimiter=delimiter)))
    for number, line in enumerate(csv.reader(text.splitlines(), delimiter=delimiter), first):
        row = _cells(line)
        if not any(row) or row == header:
            continue
        if len(row) != len(header):
            raise WrongResults(f"{name}, line {number} has {len(row)} values, the first line {len(header)} names")
        yield f"{name}, line {number}", dict(zip(header, row, strict=True))


def _cells(row: Sequence[str]) -> list[str]:
    """The cells of a row without spaces at their ends."""
    return [cell.strip() for cell in row]


def rows_found(rows: Iterable[Row]) -> set[str]:
    """All names in some rows."""
    found: set[str] = set()
    for _, row in rows:
        found.update(row)
    return found
