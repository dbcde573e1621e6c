"""Rows of text from anyone's table, of a file or of values in memory, and the numbers that people write in cells."""

import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from decimal import Decimal
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError

DELIMITERS = ",;\t|"
MARKDOWN = re.compile(r"(?=.*\|)[\s|:-]*-[\s|:-]*")
"""The line of a Markdown table between its head and its rows."""
DIVERGED = {"diverged", "nan", "inf", "+inf", "-inf", "infinity", "-infinity"}
FAILED = {
    *("", "-", "--", "–", "—", "?", "none", "null", "na", "n/a", "#n/a", "<na>", "nat", "missing", "dnf"),
    *("fail", "failed", "failure", "crash", "crashed", "error", "oom", "out of memory", "killed", "timeout"),
    *("timed out", "pruned", "canceled", "cancelled", "preempted", "running", "pending", "scheduled"),
}
"""What a run has in place of a value where it diverged, and where it did not finish for another reason."""
LARGEST = 1e300
"""Larger values count as diverged."""
PAIR = re.compile(r"(.+?)\s*(?:±|\+/-|\+-)\s*(.+)|(.+?)\s*\((.+)\)")
"""A mean with its standard deviation in one cell."""
FORM = r"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:{group}\d{{3}})+)(?:{point}\d*)?(?:e[-+]?\d+)?|[-+]?{point}\d+(?:e[-+]?\d+)?"
FORMS = {
    point: re.compile(FORM.format(point=re.escape(point), group=re.escape(group))) for point, group in (".,", ",.")
}
"""A number with a decimal point, perhaps with commas between thousands; and the other way around."""


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
    if any(map(MARKDOWN.fullmatch, lines)):
        return _sheet(name, _of_markdown(name, lines), notes)
    head = next(filter(str.strip, lines), "")
    delimiter = max(DELIMITERS, key=lambda x: len(next(csv.reader([head], delimiter=x), [])))
    reader = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=delimiter)
    try:
        rows = [(f"{name}, line {reader.line_num}", [*map(str.strip, cells)]) for cells in reader]
    except csv.Error as error:
        raise UsageError(f"{name}, line {reader.line_num}: no CSV: {error}") from None
    return _sheet(name, [row for row in rows if any(row[1])], notes)


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
    if isinstance(values, Mapping):
        lists = all(isinstance(x, Sequence) and not isinstance(x, str) for x in values.values())
        if lists and all(isinstance(row, Mapping) for rows in values.values() for row in rows):
            values = [{"table": table, **row} for table, rows in values.items() for row in rows]
        else:
            values = [[*values], *zip_longest(*values.values())] if lists else [values]
    found = [*values] if isinstance(values, Iterable) else [values]
    found = [asdict(x) if is_dataclass(x) and not isinstance(x, type) else x for x in found]
    if found and all(isinstance(row, Mapping) for row in found):
        found = [_flat(row) for row in found]
        columns = list(dict.fromkeys(key for row in found for key in row))
        found = [columns, *([row.get(column) for column in columns] for row in found)]
    elif any(isinstance(row, str) or not isinstance(row, Iterable) for row in found):
        raise UsageError(f"{name} must be a list of rows, each with its values by column, or a list for each column")
    rows = [(f"{name}, row {i}", [*map(_text, row)]) for i, row in enumerate(found)]
    return _sheet(name, [row for row in rows if any(row[1])], ())


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
    rows = _one_head(rows)
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
    (place, head), *rest = rows
    while rest and not rest[0][1][0]:
        head = ["_".join(filter(None, names)) for names in zip_longest(head, rest.pop(0)[1])]
    if rest and [not cell for cell in rest[0][1]] == [bool(name) for name in head]:
        head = [name or index for name, index in zip(head, rest.pop(0)[1], strict=True)]
    return [(place, head), *rest]


def _check_names(name: str, columns: Sequence[str]) -> None:
    if twice := [x for i, x in enumerate(columns) if x in columns[:i]]:
        raise UsageError(f"{name} has two columns {twice[0]!r}; give each its own name")


def words(text: str) -> str:
    """A cell in small letters, without marks of emphasis and spaces between thousands."""
    text = text.casefold().replace("−", "-").replace("\\pm", "±").strip(" *$")
    return re.sub(r"(?<=\d)[\s'’](?=\d{3}(?!\d))", "", text)


def pair_of(text: str) -> tuple[str, str] | None:
    """Mean and standard deviation of a cell that has both."""
    found = PAIR.fullmatch(words(text))
    return (found[1] or found[3], found[2] or found[4]) if found else None


def is_lost(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return words(text) in DIVERGED | FAILED


def atoms(text: str) -> list[str]:
    """The numbers of a cell, without their percent signs; none if it has no value."""
    return [] if is_lost(text) else [words(x).removesuffix("%").rstrip() for x in pair_of(text) or (text,)]


def is_number(text: str) -> bool:
    """Whether a cell may be a number, two of them, or a word in place of one."""
    return all(any(form.fullmatch(x) for form in FORMS.values()) for x in atoms(text))


def seed_of(text: str) -> str:
    """A seed in one spelling: 1 and 1.0 are the same."""
    try:
        number = Decimal(text)
        return str(int(number)) if number == number.to_integral_value() else text
    except (ArithmeticError, ValueError):
        return text


def decimal_sign(cells: Iterable[tuple[str, str]]) -> str:
    """The decimal sign of the numbers of a table, "." or ",", by their texts and places.

    Raises:
        UsageError: a text is no number, or some may be two numbers, as "1,510" alone.
    """
    numbers = [(atom, place) for text, place in cells for atom in atoms(text)]
    for atom, place in numbers:
        if not any(form.fullmatch(atom) for form in FORMS.values()):
            ways = "must be a number, or say why there is none, as diverged, failed or NA"
            raise UsageError(f"{place}: {ways}; got {atom!r}")
    unfit = {sign: [x for x in numbers if not form.fullmatch(x[0])] for sign, form in FORMS.items()}
    if all(unfit.values()):
        (a, here), (b, there) = unfit["."][0], unfit[","][0]
        raise UsageError(f"{here}: {a} has a decimal comma, but {there}: {b} has a decimal point; write all alike")
    if any(unfit.values()):
        return "," if unfit["."] else "."
    for atom, place in numbers:
        if "," in atom:
            one, other = (f"{_float(atom, sign):g}" for sign in ".,")
            raise UsageError(f"{place}: {atom} can be {one} or {other}; write all numbers with a decimal point only")
    return "."


def value_of(text: str, sign: str) -> float | None:
    """The number of a cell with a decimal sign; NaN if it diverged, None for another run without a value."""
    if is_lost(text):
        return math.nan if words(text) in DIVERGED else None
    value = _float(atoms(text)[0], sign)
    return value if abs(value) <= LARGEST else math.nan


def _float(atom: str, sign: str) -> float:
    return float(atom.replace("," if sign == "." else ".", "").replace(sign, "."))
