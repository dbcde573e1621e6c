"""Tables of values: rows whose columns have names, types and meanings, for CSV, pandas and a screen."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from markupsafe import Markup

from fairbench.common.checks import Flag
from fairbench.common.errors import UsageError
from fairbench.common.files import Content
from fairbench.common.formatting import plain, plural
from fairbench.common.wording import Wording
from fairbench.report.fields import SEARCHED, Field, fields_of, names_of
from fairbench.report.view import Cell, TableView, TextColumn, table_view

if TYPE_CHECKING:
    import pandas
    from rich.console import Group

RowT = TypeVar("RowT")
PLAIN = Wording()
"""The words of a study of optimizers."""
IN_TERMINAL = 20
"""The most rows that a terminal shows."""
IN_NOTEBOOK = 100
"""The most rows that a notebook shows."""


def csv_line(cells: Iterable[Any]) -> str:
    """A line of CSV."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow(map(_cell, cells))
    return file.getvalue()


def _cell(value: Any) -> Any:
    """A value as it is passed to `csv`, which writes floats by `repr` and None as an empty cell."""
    if isinstance(value, bool):
        return str(value).upper()  # R reads no other spelling; pandas reads this one too
    if isinstance(value, tuple | list):
        return json.dumps(value)
    return value


@dataclass(frozen=True, repr=False)
class Table(Sequence[RowT], Generic[RowT]):
    """Rows with the column names of the study's data files.

    Attributes:
        rows: dataclasses or mappings.
        columns: their names, which `datapackage.json` explains.
        report_view: the table as the report shows it; None for a plain one.
        kind: the dataclass whose docstring says what the columns mean; None without one.
        wording: the words of the names of columns in files, and of their meanings.

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
    wording: Wording = PLAIN

    @overload
    def __getitem__(self, index: int) -> RowT: ...
    @overload
    def __getitem__(self, index: slice) -> Table[RowT]: ...
    def __getitem__(self, index: int | slice) -> RowT | Table[RowT]:
        """A row, or a plain table of some rows."""
        if isinstance(index, slice):
            return Table(self.rows[index], self.columns)
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def fields(self) -> list[Field]:
        """The type and the meaning of each column. A column that `kind` does not have is a searched hyperparameter."""
        known = {}
        if self.kind:
            known = {field.name: field for field in fields_of(self.kind)}
        fields = [known.get(name, Field(name, "any", "searched hyperparameter")) for name in self.columns]
        return [field.worded(self.wording) for field in fields]

    @property
    def names(self) -> list[str]:
        """The names of the columns in files, which has "variant" for "optimizer" where variants are compared."""
        return [self.wording.column(name) for name in self.columns]

    def content(self) -> Content:
        r"""The content of its data file.

        >>> "".join(fb.open("results/mine").table("aggregate").content()).count("\n")
        5
        """
        return self.to_csv()

    def to_csv(self) -> Iterator[str]:
        """The lines of a CSV file: floats by `repr`, None as an empty cell, booleans as TRUE or FALSE, lists as JSON.

        >>> next(fb.open("results/mine").verdicts().to_csv())[:15]
        'arena,metric,di'
        """
        yield csv_line(self.names)
        for row in map(_as_dict, self.rows):
            yield csv_line(row[name] for name in self.columns)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Every row as a dictionary.

        Returns:
            Plain values, by the names of the columns.

        >>> fb.open("results/mine").verdicts().to_dicts()[0]["baseline"]
        'AdamW'
        """
        dicts = []
        for row in map(_as_dict, self.rows):
            values = [row[name] for name in self.columns]
            dicts.append(dict(zip(self.names, values, strict=True)))
        return dicts

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a data frame of pandas.

        Raises:
            UsageError: pandas is not installed.

        >>> fb.open("results/mine").table("aggregate").to_pandas().shape
        (4, 10)
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise UsageError("to_pandas needs pandas: pip install pandas; or take to_dicts()") from error
        return pandas.DataFrame(self.to_dicts(), columns=self.names)

    @cached_property
    def view(self) -> TableView:
        """The table as text: the report's, or a plain one of the first rows.

        >>> [column.title for column in fb.open("results/mine").verdicts().view.columns][:3]
        ['Arena', 'Baseline', 'Verdict']
        """
        if self.report_view is not None:
            return self.report_view
        columns = []
        for name, title in zip(self.columns, self.names, strict=True):
            columns.append(TextColumn(title, partial(_shown, name)))
        rows = [_as_dict(row) for row in self.rows[:IN_NOTEBOOK]]
        return table_view(name="", caption="", columns=columns, rows=rows)

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        view = self.view
        table = Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>")
        html = table.format(_html_caption(view), _html_head(view), _html_body(view))
        if len(self) > IN_NOTEBOOK:
            more = f"... {IN_NOTEBOOK} of {len(self)} rows"
            html += Markup("<p>{}</p>").format(more)
        return str(html)

    def __repr__(self) -> str:
        """The table in one screen: the first rows, and the columns that fit."""
        from fairbench.report.render.terminal import screen  # slow to import

        if not self:
            return f"no rows; columns: {', '.join(self.columns)}"
        text = screen(self.view, IN_TERMINAL)
        if len(self) > IN_TERMINAL:
            text += f"\n... {IN_TERMINAL} of {len(self)} rows"
        return text


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
    """A table of dataclasses. The fields of the dataclass are the columns."""
    return Table(rows, names_of(kind), kind=kind)


def _as_dict(row: Any) -> dict[str, Any]:
    """The values of a row by the names of the columns. Each searched hyperparameter is a column."""
    values = row if isinstance(row, Mapping) else vars(row)
    return {**values, **values.get(SEARCHED, {})}


def _shown(name: str, row: Mapping[str, Any]) -> str:
    """The value of a column in a row of a plain table, as text."""
    value = row[name]
    if isinstance(value, float):
        return plain(value, ".4g")
    if isinstance(value, list | tuple):
        if all(isinstance(part, str) for part in value):
            return ", ".join(value)
        return plural(len(value), "value")
    if value is None:
        return ""
    return str(value)


def _html_caption(view: TableView) -> str:
    """The caption of a table in HTML; empty without one."""
    if not view.caption:
        return ""
    return Markup("<caption>{}</caption>").format(view.caption)


def _html_head(view: TableView) -> Markup:
    """The titles of all columns in HTML."""
    cells = [Markup("<th>{}</th>").format(column.title) for column in view.columns]
    return Markup("").join(cells)


def _html_body(view: TableView) -> Markup:
    """The first rows of a table in HTML."""
    rows = []
    for row in view.rows[:IN_NOTEBOOK]:
        cells = Markup("").join(map(_html_cell, row))
        rows.append(Markup("<tr>{}</tr>").format(cells))
    return Markup("").join(rows)


def _html_cell(cell: Cell) -> Markup:
    """A cell in HTML. Numbers are aligned right."""
    align = "left" if cell.value is None else "right"
    return Markup('<td style="text-align: {}">{}</td>').format(align, cell.text)
