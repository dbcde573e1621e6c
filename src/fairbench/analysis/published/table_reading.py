"""Rows of text from anyone's table, of a file or of values in memory."""

import csv
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some

DELIMITERS = ",;\t|"
MARKDOWN = re.compile(r"(?=.*\|)[\s|:-]*-[\s|:-]*")
"""The line of a Markdown table between its head and its rows."""


@dataclass(frozen=True)
class Row:
    """The texts of a row by their columns, and where it is."""

    cells: Mapping[str, str]
    place: str


@dataclass(frozen=True)
class Sheet:
    """The rows of a table that have any text, and what must be said of how it was read."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: tuple[str, ...] = ()


def read_table(source: Any) -> Sheet:
    """The rows of a table, as texts.

    Args:
        source: a path; "-" for standard input; an open file; a data frame of pandas, polars or pyarrow; a list of
            mappings, of dataclasses, or of rows of which the first has the names; a mapping of columns, or of such
            lists. A file has CSV with commas, semicolons, tabs or bars, tables in Markdown, JSON, or lines of JSON.

    Raises:
        UsageError: it cannot be read, has no rows, unlike tables, two columns of one name, or a row of another length.
    """
    if isinstance(source, str) and source == "-":
        return _of_text("standard input", sys.stdin.buffer.read())
    if isinstance(source, str | os.PathLike):
        try:
            return _of_text(Path(source).name, Path(source).read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(f"{os.fspath(source)} cannot be read: {error}; give a table in CSV or JSON") from None
    if hasattr(source, "read"):
        return _of_text(Path(str(getattr(source, "name", "the open file"))).name, source.read())
    return _of_values("the table", source)


def _of_text(name: str, content: str | bytes) -> Sheet:
    text, notes = (content, ()) if isinstance(content, str) else _decoded(name, content)
    text = text.lstrip("\ufeff")
    if text.lstrip()[:1] in ("[", "{"):
        return _of_values(name, _of_json(name, text))
    lines = text.splitlines(keepends=True)
    if lines and lines[0].startswith("sep="):  # as Excel writes it
        lines[0] = "\n"
    if any(map(MARKDOWN.fullmatch, lines[1:])):
        return _sheet(name, _of_markdown(name, lines), notes)
    comments = len([*takewhile(lambda line: line.startswith("#"), lines)])
    if comments and re.search(r"(?:^|[,;\t|])\s*[-+.]?\d", "".join(lines[comments : comments + 1])):
        comments -= 1  # the names stand in a comment, as numpy writes them, since numbers are below
        lines[comments] = lines[comments].lstrip("# ")
    lines[:comments] = ["\n"] * comments
    notes += (f"{plural(comments, 'line')} of comments skipped",) if comments else ()
    head = next(filter(str.strip, lines), "")
    delimiter = max(DELIMITERS, key=lambda x: len(next(csv.reader([head], delimiter=x), [])))
    if delimiter not in head and len({len(line.split()) for line in lines if line.strip()}) == 1:
        lines = ["\t".join(line.split()) + "\n" for line in lines]  # columns with spaces between them
        delimiter = "\t"
    reader = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=delimiter)
    try:
        rows = [(f"{name}, line {reader.line_num}", [*map(str.strip, cells)]) for cells in reader]
    except csv.Error as error:
        raise UsageError(f"{name}, line {reader.line_num}: no CSV: {error}") from None
    return _sheet(name, rows, notes)


def _of_markdown(name: str, lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The rows of the table of a page; of several with one head, with the heading above each."""
    tables, heading = list[tuple[str, list[tuple[int, list[str]]]]](), ""
    for i, line in enumerate(lines):
        if line.startswith("#"):
            heading = line.strip("# \n")
        if i and MARKDOWN.fullmatch(line):
            body = takewhile(lambda x: "|" in x[1], enumerate(lines[i + 1 :], i + 2))
            rows = [(n, re.split(r"(?<!\\)\|", x.strip().strip("|"))) for n, x in ((i, lines[i - 1]), *body)]
            tables.append((heading, [(n, [x.strip(" *`") for x in cells]) for n, cells in rows]))
    heads = [rows[0] for _, rows in tables]
    if any(columns != heads[0][1] for _, columns in heads):
        places = " and ".join(str(n) for n, _ in heads)
        raise UsageError(f"{name} has tables with different columns, in lines {places}; give a file with one of them")
    rows = [(n, [title, *cells]) for title, rows in tables for n, cells in rows[1:]]
    rows.insert(0, (heads[0][0], ["table", *heads[0][1]]))
    return [(f"{name}, line {n}", cells if len(tables) > 1 else cells[1:]) for n, cells in rows]


def _decoded(name: str, content: bytes) -> tuple[str, tuple[str, ...]]:
    """The text of a file in UTF-8, UTF-16 with its mark, or, which is then said, Windows-1252."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", "replace"), ()
    if b"\0" in content:
        raise UsageError(f"{name} is no text; save it as CSV in UTF-8")
    try:
        return content.decode(), ()
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), (f"{name} is not UTF-8 and was read as Windows-1252",)


def _of_json(name: str, text: str) -> Any:
    """A value of JSON, or those of its lines."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _check_names(name, [key for key, _ in pairs])
        return dict(pairs)

    decoder, found, end = json.JSONDecoder(object_pairs_hook=once), list[Any](), 0
    try:
        while rest := text[end:].lstrip():
            value, length = decoder.raw_decode(rest)
            found.append(value)
            end = len(text) - len(rest) + length
    except ValueError as error:
        raise UsageError(f"{name}, line {text.count(chr(10), 0, end) + 1}: no JSON: {error}") from None
    return found if len(found) > 1 else found[0]


def _of_values(name: str, values: Any) -> Sheet:
    """The rows of values in memory."""
    if hasattr(values, "columns"):
        _check_names(name, [*map(_text, values.columns)])
    for method in ("to_dicts", "to_pylist"):
        values = getattr(values, method)() if hasattr(values, method) else values
    if hasattr(values, "reset_index"):  # a data frame of pandas, in which NaN is a missing value
        values = values.reset_index(drop=not any(values.index.names))
        values = values.astype(object).where(values.notna(), None).to_dict("records")
    left_out: tuple[str, ...] = ()
    if isinstance(values, Mapping):
        values, left_out = _of_mapping(values)
    found = [*values] if isinstance(values, Iterable) else [values]
    found = [asdict(x) if is_dataclass(x) and not isinstance(x, type) else x for x in found]
    if found and all(isinstance(row, Mapping) for row in found):
        found = [_flat(row) for row in found]
        columns = list(dict.fromkeys(key for row in found for key in row))
        found = [columns, *([row.get(column) for column in columns] for row in found)]
    elif any(isinstance(row, str) or not isinstance(row, Iterable) for row in found):
        raise UsageError(f"{name} must be a list of rows, each with its values by column, or a list for each column")
    rows = [(f"{name}, row {i}", [*map(_text, row)]) for i, row in enumerate(found)]
    return _sheet(name, rows, (f"keys that hold no rows left out: {some(left_out)}",) if left_out else ())


def _of_mapping(values: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The rows of a mapping, and the keys that are none of them.

    The values are tables by their names, columns, or rows by numbers, as pandas writes them.
    """
    tables = {key: x for key, x in values.items() if isinstance(x, list) and x and isinstance(x[0], Mapping)}
    if tables:
        rows = [{"table": table, **row} if len(tables) > 1 else row for table, rows in tables.items() for row in rows]
        return rows, tuple(key for key in values if key not in tables)
    if all(isinstance(values.get(key), list) for key in ("columns", "data")):
        numbered = [*range(len(values["data"]))]  # as pandas has it where the rows have no names
        left = tuple(key for key in values if key not in ("columns", "data") and values[key] != numbered)
        return [values["columns"], *values["data"]], left
    nested = [x for x in values.values() if isinstance(x, Mapping)]
    if nested and len(nested) == len(values):
        if all(key.isdigit() for key in values):
            return nested, ()
        if all(key.isdigit() and not isinstance(of, Mapping) for x in nested for key, of in x.items()):
            keys = dict.fromkeys(key for x in nested for key in x)
            return [{column: x.get(key) for column, x in values.items()} for key in keys], ()
    flat = _flat(values)
    if all(isinstance(x, Sequence) and not isinstance(x, str) for x in flat.values()):
        return [[*flat], *zip_longest(*flat.values())], ()
    return [flat], ()


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The values of nested mappings by the path of their keys."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        found |= _flat(value, f"{before}{key}.") if isinstance(value, Mapping) else {f"{before}{key}": value}
    return found


def _text(value: Any) -> str:
    """A value as text; a tensor or a number of numpy by its value."""
    if isinstance(value, tuple):  # a column of several levels of pandas
        return "_".join(filter(None, map(_text, value)))
    return "" if value is None else str(value.item() if hasattr(value, "item") else value).strip()


def _sheet(name: str, rows: Sequence[tuple[str, Sequence[str]]], notes: tuple[str, ...]) -> Sheet:
    rows = _one_head([row for row in rows if any(row[1])])
    head = list(rows[0][1]) if rows else []
    longest = max((i for _, cells in rows for i, cell in enumerate(cells, 1) if cell), default=0)
    if longest > len(head):
        place = next(place for place, cells in rows if any(cells[len(head) :]))
        raise UsageError(f"{place}: must have {len(head)} cells, as the first line; quote a cell with the separator")
    head = [column or f"column {i}" for i, column in enumerate(head[:longest], 1)]
    _check_names(name, head)
    for place, cells in rows:
        if len(cells) < len(head):
            raise UsageError(f"{place}: must have {len(head)} cells, as the first line; it has {len(cells)}")
    if len(rows) < 2:
        raise UsageError(f"{name} has no rows below its columns ({', '.join(head) or 'none'})")
    return Sheet(name, tuple(head), [Row(dict(zip(head, cells, strict=False)), x) for x, cells in rows[1:]], notes)


def _one_head(rows: Sequence[tuple[str, Sequence[str]]]) -> Sequence[tuple[str, Sequence[str]]]:
    """The rows with one line of names, where pandas wrote several levels of them, and those of the index below."""
    if not rows or len(set(rows[0][1])) == len(rows[0][1]):
        return rows
    index = next((i for i, (_, cells) in enumerate(rows[1:5], 1) if cells[0] and not cells[-1]), 0)
    own = index and len([*takewhile(bool, rows[index][1])])
    if not index or any(rows[0][1][:own]) or len({len(cells) for _, cells in rows[: index + 1]}) > 1:
        return rows
    levels = sorted((cells for _, cells in rows[:index]), key=lambda cells: not cells[0])  # those with names first
    names = ["_".join(filter(None, of)) for of in zip(*(cells[own:] for cells in levels), strict=True)]
    return [(rows[0][0], [*rows[index][1][:own], *names]), *rows[index + 1 :]]


def _check_names(name: str, columns: Sequence[str]) -> None:
    if twice := [x for i, x in enumerate(columns) if x in columns[:i]]:
        raise UsageError(f"{name} has two columns {twice[0]!r}; give each its own name")
