"""Tables to be shown: the text and the sort value of each cell; the page and LaTeX lay them out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.report.tables.verdict_text import VerdictText

Row = Any
"""What a table has a row for: any object with attributes."""


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        text: the text; a verdict carries its own style.
        value: the number that it is sorted by; None sorts it by its text.
    """

    text: str | VerdictText
    value: float | None = None


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: its heading.
        show: returns the text for a row.
        value: the number behind that, for a column of numbers; they stand at the right.
    """

    title: str
    show: Callable[[Row], str | VerdictText]
    value: Callable[[Row], float | None] | None = None

    def cell(self, row: Row) -> Cell:
        """The cell of a row."""
        return Cell(self.show(row), self.value(row) if self.value else None)


@dataclass(frozen=True)
class TableView:
    """A table whose first column names the subject of each row.

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
    """A column of an attribute as text."""
    return Column(title, lambda row: str(getattr(row, attribute)))


def numbers(title: str, attribute: str, form: Callable[[Any], str]) -> Column:
    """A column of an attribute that is a number or None."""
    return Column(title, lambda row: form(getattr(row, attribute)), lambda row: getattr(row, attribute))


def count(title: str, attribute: str) -> Column:
    """A column of whole numbers."""
    return numbers(title, attribute, str)


ARM = (words("Arena", "arena"), words("Optimizer", "optimizer"))
"""The columns that name a row's arm."""


def table_view(name: str, caption: str, columns: Sequence[Column], rows: Iterable[Row]) -> TableView:
    """The table with a row for each object."""
    return TableView(name, caption, columns, [[column.cell(row) for column in columns] for row in rows])
