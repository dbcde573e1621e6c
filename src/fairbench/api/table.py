"""Tables of a study for Python: a sequence of rows that a terminal and a notebook show well."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from markupsafe import Markup

from fairbench.common.checks import Flag
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plain, plural
from fairbench.report.tables.model import Cell, Column, TableView, table_view

if TYPE_CHECKING:
    import pandas

RowT = TypeVar("RowT")
IN_TERMINAL, IN_NOTEBOOK = 20, 100
"""The most rows that are shown."""
LONGEST = 44
"""Letters of a cell that a terminal shows."""


@dataclass(frozen=True, repr=False)
class Table(Sequence[RowT], Generic[RowT]):
    """Rows with the column names of the study's data files.

    Attributes:
        rows: dataclasses or mappings.
        columns: their names, which `datapackage.json` explains.
        report_view: the table as the report shows it; None for a plain one.

    >>> table = fb.open("results/mine").verdicts()
    >>> table.columns[:3]
    ('arena', 'metric', 'direction')
    >>> table[0].arena
    'vit'
    """

    rows: Sequence[RowT]
    columns: tuple[str, ...]
    report_view: TableView | None = None

    @overload
    def __getitem__(self, index: int) -> RowT: ...
    @overload
    def __getitem__(self, index: slice) -> Table[RowT]: ...
    def __getitem__(self, index: int | slice) -> RowT | Table[RowT]:
        """A row, or a plain table of some rows."""
        return Table(self.rows[index], self.columns) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Every row as a dictionary.

        Returns:
            Plain values, by the names of the columns.

        >>> fb.open("results/mine").verdicts().to_dicts()[0]["baseline"]
        'AdamW'
        """
        return [*map(_as_dict, self.rows)]

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a data frame of pandas.

        Raises:
            UsageError: pandas is not installed.

        >>> fb.open("results/mine").cost().to_pandas().shape
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
        shown = [Column(name, _Shown(name)) for name in self.columns]
        return table_view("", "", shown, [*map(_as_dict, self.rows[:IN_NOTEBOOK])])

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        view = self.view
        head = Markup("").join(Markup("<th>{}</th>").format(column.title) for column in view.columns)
        rows = [Markup("").join(_html(x) for x in row) for row in view.rows[:IN_NOTEBOOK]]
        body = Markup("").join(Markup("<tr>{}</tr>").format(row) for row in rows)
        caption = Markup("<caption>{}</caption>").format(view.caption) if view.caption else ""
        more = Markup("<p>{}</p>").format(self._more(IN_NOTEBOOK)) if len(self) > IN_NOTEBOOK else ""
        return str(
            Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}").format(caption, head, body, more)
        )

    def __repr__(self) -> str:
        """The table in one screen: the first rows, and the columns that fit."""
        view, width = self.view, shutil.get_terminal_size().columns
        cells = [[column.title for column in view.columns]]
        cells += [[_short(str(cell.text)) for cell in row] for row in view.rows[:IN_TERMINAL]]
        wide = [column.in_latex for column in view.columns]
        sizes = [max(map(len, column)) for column in zip(*cells, strict=True)]
        kept: list[int] = []
        for i, size in enumerate(sizes):
            if wide[i] and sum(sizes[j] + 2 for j in kept) + size <= width:
                kept.append(i)
        lines = ["  ".join(row[i].ljust(sizes[i]) for i in kept).rstrip() for row in cells]
        hidden = [column.title for i, column in enumerate(view.columns) if i not in kept]
        lines += [self._more(IN_TERMINAL)] if len(self) > IN_TERMINAL else []
        lines += [_short(f"columns not shown: {', '.join(hidden)}", width)] if hidden else []
        return "\n".join(lines) if len(self) else f"no rows; columns: {', '.join(self.columns)}"

    def _more(self, shown: int) -> str:
        return f"... {shown} of {plural(len(self), 'row')}"


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


def table_of(kind: type, rows: Sequence[RowT], view: TableView | None = None) -> Table[RowT]:
    """A table of dataclasses, whose fields are its columns."""
    return Table(rows, tuple(field.name for field in fields(kind)), view)


def _as_dict(row: Any) -> dict[str, Any]:
    return asdict(row) if is_dataclass(row) and not isinstance(row, type) else dict(row)


@dataclass(frozen=True)
class _Shown:
    """Shows the value of a plain table's column as text."""

    name: str

    def __call__(self, row: Mapping[str, Any]) -> str:
        value = row[self.name]
        if isinstance(value, float):
            return plain(value, ".4g")
        if isinstance(value, list | tuple) and not all(isinstance(x, str) for x in value):
            return plural(len(value), "value")
        return "" if value is None else ", ".join(value) if isinstance(value, list | tuple) else str(value)


def _html(cell: Cell) -> Markup:
    align = "left" if cell.value is None else "right"
    return Markup('<td style="text-align: {}">{}</td>').format(align, cell.text)


def _short(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
