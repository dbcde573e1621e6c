"""Tables of values: rows whose columns have names, types and meanings, for CSV, pandas and a screen."""

from __future__ import annotations

import csv
import inspect
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import cached_property, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_type_hints, overload

from markupsafe import Markup

from fairbench.common.checks import Flag
from fairbench.common.errors import UsageError
from fairbench.common.files import Content
from fairbench.common.formatting import plain, plural
from fairbench.report.view import Cell, Column, TableView, table_view

if TYPE_CHECKING:
    import pandas
    from rich.console import Group

RowT = TypeVar("RowT")
IN_TERMINAL, IN_NOTEBOOK = 20, 100
"""The most rows that are shown."""
SEARCHED = "searched"
"""A field with the searched hyperparameters by their names, each of which is a column."""
TYPES = {str: "string", int: "integer", float: "number", Decimal: "number", bool: "boolean"}
"""The names of types in a Frictionless table schema; all others are texts."""
UNITS = {"_ms": "ms", "_s": "s", "_seconds": "s", "_mb": "MB", "_bytes": "B"}
"""The unit of a column by the end of its name."""
COMMON = {
    "arena": "name of the arena",
    "optimizer": "name of the optimizer",
    "metric": "name of the metric",
    "n": "number of seeds",
    "note": "why a value is missing, or a restriction; may be empty",
    "ci_low": "end of the 95% confidence interval, not corrected for the number of rows",
    "ci_high": "end of the 95% confidence interval, not corrected for the number of rows",
    "groups": "a letter for each group to which it belongs; optimizers that share one are not separated",
    "critical_difference": "the smallest difference of mean ranks that separates two; empty without such a test",
    "baseline": "the optimizer that it is compared with",
    "direction": '"min" or "max", which is better',
    "place": "where it is printed",
    "stage": '"sweep" or "final"',
    "status": '"finished", "diverged", "failed" or "missing"',
    "selected": "whether its setting is the one that is reported",
}
"""The meaning of columns where their dataclass does not say more."""


@dataclass(frozen=True)
class Field:
    """A column of a data file.

    Attributes:
        type: "string", "integer", "number", "boolean", "array" or "any"; only a Parquet file has arrays.
        item: of an array, the type of its values; otherwise empty.
    """

    name: str
    type: str
    description: str
    item: str = ""

    def to_json(self) -> dict[str, Any]:
        """The column in a Frictionless table schema."""
        unit = next(({"unit": unit} for end, unit in UNITS.items() if self.name.endswith(end)), {})
        kind, begin = ("any", "list: ") if self.item else (self.type, "")  # its library refuses the lists of Parquet
        return {"name": self.name, "type": kind, "description": f"{begin}{self.description}", **unit}


def fields_of(kind: type) -> list[Field]:
    """The fields of a dataclass with the meanings that its docstring gives, or that of its base, or common ones.

    Raises:
        KeyError: a field has no meaning.
    """
    meanings, types = dict(COMMON), get_type_hints(kind)
    for base in reversed(kind.__mro__):
        meanings |= meanings_of(base)
    return [Field(name, _type(types[name]), meanings[name]) for name in names_of(kind)]


def names_of(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's columns; `searched` stands for columns that differ between studies."""
    return tuple(field.name for field in fields(kind) if field.name != SEARCHED)


def _type(hint: Any) -> str:
    """The type of the values, without None."""
    return next(TYPES.get(x, "string") for x in (get_args(hint) or (hint,)) if x is not NoneType)


def purpose(kind: type) -> str:
    """The first sentence of a docstring."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())


def meanings_of(kind: type) -> dict[str, str]:
    """The meaning of each field in the section "Attributes" of a docstring; None is an empty cell in a file."""
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n     +.*)*)", section, flags=re.MULTILINE)
    entries = [(names, re.sub(r"\bNone\b", "empty", " ".join(text.split())).rstrip(".")) for names, text in entries]
    return {name: text for names, text in entries for name in names.split(", ")}


def csv_line(cells: Iterable[Any]) -> str:
    """A line of CSV."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow(map(_cell, cells))
    return file.getvalue()


def _cell(value: Any) -> Any:
    """The value to pass to `csv`, which writes floats by `repr` and None as an empty cell."""
    if isinstance(value, bool):
        return str(value).upper()  # R reads no other spelling; pandas reads this one too
    return json.dumps(value) if isinstance(value, tuple | list) else value


@dataclass(frozen=True, repr=False)
class Table(Sequence[RowT], Generic[RowT]):
    """Rows with the column names of the study's data files.

    Attributes:
        rows: dataclasses or mappings.
        columns: their names, which `datapackage.json` explains.
        report_view: the table as the report shows it; None for a plain one.
        kind: the dataclass whose docstring says what the columns mean; None without one.

    >>> table = fb.open("results/mine").verdicts()
    >>> table.columns[:3]
    ('arena', 'metric', 'direction')
    >>> table[0].arena
    'vit'
    """

    rows: Sequence[RowT]
    columns: tuple[str, ...]
    report_view: TableView | None = None
    kind: type | None = None

    @overload
    def __getitem__(self, index: int) -> RowT: ...
    @overload
    def __getitem__(self, index: slice) -> Table[RowT]: ...
    def __getitem__(self, index: int | slice) -> RowT | Table[RowT]:
        """A row, or a plain table of some rows."""
        return Table(self.rows[index], self.columns) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def fields(self) -> list[Field]:
        """Type and meaning of each column."""
        known = {field.name: field for field in fields_of(self.kind)} if self.kind else {}
        return [known.get(name) or Field(name, "any", "searched hyperparameter") for name in self.columns]

    def content(self) -> Content:
        r"""The content of its data file.

        >>> "".join(fb.open("results/mine").table("cost").content()).count("\n")
        3
        """
        return self.to_csv()

    def to_csv(self) -> Iterator[str]:
        """The lines of a CSV file: floats by `repr`, None as an empty cell, booleans as TRUE or FALSE, lists as JSON.

        >>> next(fb.open("results/mine").verdicts().to_csv())[:15]
        'arena,metric,di'
        """
        yield csv_line(self.columns)
        for row in map(_as_dict, self.rows):
            yield csv_line(row[name] for name in self.columns)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Every row as a dictionary.

        Returns:
            Plain values, by the names of the columns.

        >>> fb.open("results/mine").verdicts().to_dicts()[0]["baseline"]
        'AdamW'
        """
        return [{name: row[name] for name in self.columns} for row in map(_as_dict, self.rows)]

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a data frame of pandas.

        Raises:
            UsageError: pandas is not installed.

        >>> fb.open("results/mine").table("cost").to_pandas().shape
        (2, 14)
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise UsageError("to_pandas needs pandas: pip install pandas; or take to_dicts()") from error
        return pandas.DataFrame(self.to_dicts(), columns=list(self.columns))

    @cached_property
    def view(self) -> TableView:
        """The table as text: the report's, or a plain one of the first rows.

        >>> [column.title for column in fb.open("results/mine").verdicts().view.columns][:3]
        ['Arena', 'Baseline', 'Verdict']
        """
        if self.report_view is not None:
            return self.report_view
        shown = [Column(name, partial(_shown, name)) for name in self.columns]
        return table_view("", "", shown, [*map(_as_dict, self.rows[:IN_NOTEBOOK])])

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        view = self.view
        head = Markup("").join(Markup("<th>{}</th>").format(column.title) for column in view.columns)
        rows = (Markup("").join(map(_html, row)) for row in view.rows[:IN_NOTEBOOK])
        body = Markup("").join(map(Markup("<tr>{}</tr>").format, rows))
        caption = Markup("<caption>{}</caption>").format(view.caption) if view.caption else ""
        more = Markup("<p>{}</p>").format(f"... {IN_NOTEBOOK} of {len(self)} rows") if len(self) > IN_NOTEBOOK else ""
        return str(
            Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}").format(caption, head, body, more)
        )

    def __repr__(self) -> str:
        """The table in one screen: the first rows, and the columns that fit."""
        from fairbench.report.render.terminal import screen  # slow to import

        if not self:
            return f"no rows; columns: {', '.join(self.columns)}"
        more = f"\n... {IN_TERMINAL} of {len(self)} rows" if len(self) > IN_TERMINAL else ""
        return screen(self.view, IN_TERMINAL) + more


class Audit(Table[Flag]):
    """The flags of an audit, or the results of the checks of an optimizer.

    >>> audit = fb.open("results/mine").audit()
    >>> audit.ok
    True
    """

    @property
    def ok(self) -> bool:
        """Whether no flag is a fail."""
        return not any(flag.severity == "fail" for flag in self.rows)

    def to_json(self) -> dict[str, Any]:
        """The flags, and whether none is a fail.

        >>> [*fb.open("results/mine").audit().to_json()]
        ['ok', 'flags']
        """
        return {"ok": self.ok, "flags": self.to_dicts()}

    def __rich__(self) -> Group:
        from fairbench.report.render.terminal import audit_view  # slow to import

        return audit_view(self.rows)


def table_of(kind: type, rows: Sequence[RowT]) -> Table[RowT]:
    """A table of dataclasses, whose fields are its columns."""
    return Table(rows, names_of(kind), kind=kind)


def _as_dict(row: Any) -> dict[str, Any]:
    found = row if isinstance(row, Mapping) else vars(row)
    return {**found, **found.get(SEARCHED, {})}


def _shown(name: str, row: Mapping[str, Any]) -> str:
    """The value of a plain table's column as text."""
    value = row[name]
    if isinstance(value, float):
        return plain(value, ".4g")
    if isinstance(value, list | tuple):
        return ", ".join(value) if all(isinstance(x, str) for x in value) else plural(len(value), "value")
    return "" if value is None else str(value)


def _html(cell: Cell) -> Markup:
    align = "left" if cell.value is None else "right"
    return Markup('<td style="text-align: {}">{}</td>').format(align, cell.text)
