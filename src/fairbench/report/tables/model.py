"""Tables for readers: what a cell says and what it is sorted by; the page and LaTeX lay them out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.report.tables.verdict_text import Statement

Row = Any
"""What a table has a row for: any object with attributes."""


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        text: what it says; a verdict knows itself how it looks.
        value: the number that it is sorted by; None sorts it by its text.
    """

    text: str | Statement
    value: float | None = None


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: what stands above it.
        show: what it says of a row.
        value: the number behind that, for a column of numbers; they stand at the right.
    """

    title: str
    show: Callable[[Row], str | Statement]
    value: Callable[[Row], float | None] | None = None

    def cell(self, row: Row) -> Cell:
        """What it says of a row, with all that belongs to it."""
        return Cell(self.show(row), self.value(row) if self.value else None)


@dataclass(frozen=True)
class TableView:
    """A table, whose first column says what each row is about.

    Attributes:
        name: file name without ending.
        caption: what it shows.
        columns: its columns.
        rows: its cells.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    @property
    def grouped(self) -> bool:
        """Whether several rows are about the same."""
        return len({row[0].text for row in self.rows}) < len(self.rows)


def words(title: str, attribute: str) -> Column:
    """A column that says an attribute of each row as it is."""
    return Column(title, lambda row: str(getattr(row, attribute)))


def numbers(title: str, attribute: str, form: Callable[[Any], str]) -> Column:
    """A column of an attribute that is a number or None."""
    return Column(title, lambda row: form(getattr(row, attribute)), lambda row: getattr(row, attribute))


def count(title: str, attribute: str) -> Column:
    """A column of whole numbers."""
    return numbers(title, attribute, str)


ARM = (words("Arena", "arena"), words("Optimizer", "optimizer"))
"""The columns that say which arm a row is about."""


def table_view(name: str, caption: str, columns: Sequence[Column], rows: Iterable[Row]) -> TableView:
    """The table with a row for each object."""
    return TableView(name, caption, columns, [[column.cell(row) for column in columns] for row in rows])
