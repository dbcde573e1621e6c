"""Tables of text, independent of the page, LaTeX and terminals that lay them out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from fairbench.common.formatting import (
    NONE,
    column_of_intervals,
    column_of_means,
    column_of_numbers,
    column_of_percents,
)

if TYPE_CHECKING:
    from rich.text import Text

Row = Any
"""The object that a row shows."""


@dataclass(frozen=True, slots=True)
class Emphasized:
    """Text for pages, terminals and LaTeX, bold only if it is a win; no other code makes text bold.

    Attributes:
        bold: a pattern of what is bold in LaTeX.
        html: what a page has in its place.
        rank, style: of a verdict in a grid that can be sorted: its place, and the classes of its cell.
    """

    text: str
    is_win: bool
    bold: str = ".+"
    html: Markup | None = None
    rank: int = 0
    style: str = ""

    def __str__(self) -> str:
        return self.text

    def __html__(self) -> str:
        """The text for a template, already escaped."""
        if self.html:
            return self.html
        text = escape(self.text)
        if self.is_win:
            return Markup('<strong class="win">{}</strong>').format(text)
        return text

    def latex(self, source: str) -> str:
        """The text, given as LaTeX source."""
        if not self.is_win:
            return source
        return re.sub(self.bold, r"\\textbf{\g<0>}", source, count=1)

    def __rich__(self) -> Text:
        from rich.text import Text  # slow to import

        style = "bold" if self.is_win else ""
        return Text(self.text, style)


@dataclass(frozen=True)
class Cell:
    """One cell, sorted by its value, or by its text without one; `more` are further numbers that its text shows."""

    text: str | Emphasized
    value: float | None = None
    more: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class TextColumn:
    """One column of a table of text.

    Attributes:
        show: returns the text for a row.
        value: returns the number that the text shows; a column with it is aligned right.
        narrow: whether LaTeX and terminals have it too, which are narrower than the page.
        more: returns further numbers that the text shows, by their names; a CSV has them in full.
        together: returns the texts for all rows, whose numbers have the same number of decimals, in place of `show`.
    """

    title: str
    show: Callable[[Row], str | Emphasized]
    value: Callable[[Row], float | None] | None = None
    narrow: bool = True
    more: Mapping[str, Callable[[Row], float | None]] = field(default_factory=dict)
    together: Callable[[Sequence[Row]], Sequence[str | Emphasized]] | None = None

    def cells(self, rows: Sequence[Row]) -> list[Cell]:
        """The cell of each row."""
        texts = self._texts(rows)
        values = self._values(rows)
        further = [tuple(number(row) for number in self.more.values()) for row in rows]
        parts = zip(texts, values, further, strict=True)
        return [Cell(text, value, more) for text, value, more in parts]

    def _texts(self, rows: Sequence[Row]) -> Sequence[str | Emphasized]:
        if self.together:
            return self.together(rows)
        return [self.show(row) for row in rows]

    def _values(self, rows: Sequence[Row]) -> Sequence[float | None]:
        if self.value is None:
            return [None] * len(rows)
        return [self.value(row) for row in rows]


@dataclass(frozen=True)
class TableView:
    """A table whose first column names the subject of each row; `name` is its file name without extension."""

    name: str
    caption: str
    columns: Sequence[TextColumn]
    rows: Sequence[Sequence[Cell]]

    @property
    def grouped(self) -> bool:
        """Whether several rows have the same subject."""
        subjects = {row[0].text for row in self.rows}
        return len(subjects) < len(self.rows)

    @property
    def narrow(self) -> TableView:
        """The table without the columns that only the page has."""
        kept = [i for i, column in enumerate(self.columns) if column.narrow]
        columns = [self.columns[i] for i in kept]
        rows = [[row[i] for i in kept] for row in self.rows]
        return replace(self, columns=columns, rows=rows)


def words(title: str, attribute: str) -> TextColumn:
    """A column of an attribute as text."""

    def text(row: Row) -> str:
        return str(getattr(row, attribute))

    return TextColumn(title, text)


def numbers(title: str, attribute: str, form: Callable[[Any], str]) -> TextColumn:
    """A column of an attribute that is a number or None."""

    def text(row: Row) -> str:
        return form(getattr(row, attribute))

    return TextColumn(title, text, value=attrgetter(attribute))


def integers(title: str, attribute: str) -> TextColumn:
    """A column of whole numbers."""
    return numbers(title, attribute, str)


def aligned(
    title: str, attribute: str, form: Callable[[Sequence[float | None]], Sequence[str]] = column_of_numbers
) -> TextColumn:
    """A column of an attribute that is a number or None, with the same number of decimals in all rows."""
    value = attrgetter(attribute)

    def texts(rows: Sequence[Row]) -> Sequence[str]:
        return form([value(row) for row in rows])

    return TextColumn(title, str, value=value, together=texts)


def values(title: str, attribute: str) -> TextColumn:
    """A column of an attribute that is a value of a metric."""

    def with_four_digits(numbers: Sequence[float | None]) -> list[str]:
        return column_of_numbers(numbers, 4)

    return aligned(title, attribute, with_four_digits)


def differences(title: str, attribute: str) -> TextColumn:
    """A column of an attribute that is a difference without an interval."""

    def signed(values: Sequence[float | None]) -> list[str]:
        texts = column_of_numbers(values)
        for i, value in enumerate(values):
            if value and value > 0:
                texts[i] = f"+{texts[i]}"
        return texts

    return aligned(title, attribute, signed)


def percents(title: str, attribute: str) -> TextColumn:
    """A column of an attribute that is a share."""
    return aligned(title, attribute, column_of_percents)


def answers(title: str, attribute: str, yes: str = "yes", no: str = "no", unknown: str = NONE) -> TextColumn:
    """A column of an attribute that is a boolean or None, in words."""

    def text(row: Row) -> str:
        answer = getattr(row, attribute)
        if answer is None:
            return unknown
        return yes if answer else no

    return TextColumn(title, text)


def intervals(title: str, middle: str, low: str = "ci_low", high: str = "ci_high") -> TextColumn:
    """A column of an attribute that is a difference, with its interval."""
    interval = attrgetter(middle, low, high)

    def texts(rows: Sequence[Row]) -> list[str]:
        return column_of_intervals([interval(row) for row in rows])

    return TextColumn(
        title=f"{title} [95% CI]",
        show=str,
        value=attrgetter(middle),
        more={"low": attrgetter(low), "high": attrgetter(high)},
        together=texts,
    )


def means(title: str, mean: str, std: str) -> TextColumn:
    """A column of an attribute that is a mean, with its standard deviation; each metric has its own decimals."""
    mean_and_std = attrgetter(mean, std)
    unit = attrgetter("arena", "metric")

    def texts(rows: Sequence[Row]) -> list[str]:
        found: list[str] = []
        for _, alike in groupby(rows, unit):
            found += column_of_means([mean_and_std(row) for row in alike])
        return found

    return TextColumn(
        title=title,
        show=str,
        value=attrgetter(mean),
        more={"std": attrgetter(std)},
        together=texts,
    )


def page_only(*columns: TextColumn) -> tuple[TextColumn, ...]:
    """Columns that LaTeX and terminals leave out."""
    return tuple(replace(column, narrow=False) for column in columns)


ARM = (words("Arena", "arena"), words("Optimizer", "optimizer"))
"""The columns that name a row's arm."""


def table_view(name: str, caption: str, columns: Sequence[TextColumn], rows: Iterable[Row]) -> TableView:
    """The table with a row for each object."""
    given = list(rows)
    cells_by_column = [column.cells(given) for column in columns]
    return TableView(name, caption, columns, rows=list(zip(*cells_by_column, strict=True)))
