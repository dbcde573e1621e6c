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
        text = escape(self.text)
        return self.html or (Markup('<strong class="win">{}</strong>').format(text) if self.is_win else text)

    def latex(self, source: str) -> str:
        """The text, given as LaTeX source."""
        return re.sub(self.bold, r"\\textbf{\g<0>}", source, count=1) if self.is_win else source

    def __rich__(self) -> Text:
        from rich.text import Text  # slow to import

        return Text(self.text, "bold" if self.is_win else "")


@dataclass(frozen=True)
class Cell:
    """One cell, sorted by its value, or by its text without one; `more` are further numbers that its text shows."""

    text: str | Emphasized
    value: float | None = None
    more: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Column:
    """One column.

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
        values = [self.value(row) if self.value else None for row in rows]
        texts = self.together(rows) if self.together else [self.show(row) for row in rows]
        more = [tuple(number(row) for number in self.more.values()) for row in rows]
        return [Cell(*parts) for parts in zip(texts, values, more, strict=True)]


@dataclass(frozen=True)
class TableView:
    """A table whose first column names the subject of each row; `name` is its file name without extension."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    @property
    def grouped(self) -> bool:
        """Whether several rows have the same subject."""
        return len({row[0].text for row in self.rows}) < len(self.rows)

    @property
    def narrow(self) -> TableView:
        """The table without the columns that only the page has."""
        kept = [i for i, column in enumerate(self.columns) if column.narrow]
        columns, rows = [self.columns[i] for i in kept], [[row[i] for i in kept] for row in self.rows]
        return replace(self, columns=columns, rows=rows)


def words(title: str, attribute: str) -> Column:
    """A column of an attribute as text."""
    return Column(title, lambda row: str(getattr(row, attribute)))


def numbers(title: str, attribute: str, form: Callable[[Any], str]) -> Column:
    """A column of an attribute that is a number or None."""
    return Column(title, lambda row: form(getattr(row, attribute)), lambda row: getattr(row, attribute))


def aligned(title: str, attribute: str, form: Callable[..., Sequence[str]] = column_of_numbers) -> Column:
    """A column of an attribute that is a number or None, with the same number of decimals in all rows."""
    of = attrgetter(attribute)
    return Column(title, str, of, together=lambda rows: form([*map(of, rows)]))


def values(title: str, attribute: str) -> Column:
    """A column of an attribute that is a value of a metric."""
    return aligned(title, attribute, lambda numbers: column_of_numbers(numbers, 4))


def differences(title: str, attribute: str) -> Column:
    """A column of an attribute that is a difference without an interval."""

    def signed(values: Sequence[float | None]) -> list[str]:
        texts = column_of_numbers(values)
        return [f"+{text}" if value and value > 0 else text for value, text in zip(values, texts, strict=True)]

    return aligned(title, attribute, signed)


def percents(title: str, attribute: str) -> Column:
    """A column of an attribute that is a share."""
    return aligned(title, attribute, column_of_percents)


def answers(title: str, attribute: str, yes: str = "yes", no: str = "no", unknown: str = NONE) -> Column:
    """A column of an attribute that is a boolean or None, in words."""
    return Column(title, lambda row: {True: yes, False: no, None: unknown}[getattr(row, attribute)])


def integers(title: str, attribute: str) -> Column:
    """A column of whole numbers."""
    return numbers(title, attribute, str)


def intervals(title: str, middle: str, low: str = "ci_low", high: str = "ci_high") -> Column:
    """A column of an attribute that is a difference, with its interval."""
    of = attrgetter(middle, low, high)
    more = {"low": attrgetter(low), "high": attrgetter(high)}
    return replace(
        aligned(f"{title} [95% CI]", middle), more=more, together=lambda rows: column_of_intervals([*map(of, rows)])
    )


def means(title: str, mean: str, std: str) -> Column:
    """A column of an attribute that is a mean, with its standard deviation; each metric has its own decimals."""
    of, unit = attrgetter(mean, std), attrgetter("arena", "metric")

    def texts(rows: Sequence[Row]) -> list[str]:
        return [text for _, alike in groupby(rows, unit) for text in column_of_means([*map(of, alike)])]

    return Column(title, str, attrgetter(mean), more={"std": attrgetter(std)}, together=texts)


def page_only(*columns: Column) -> tuple[Column, ...]:
    """Columns that LaTeX and terminals leave out."""
    return tuple(replace(column, narrow=False) for column in columns)


ARM = (words("Arena", "arena"), words("Optimizer", "optimizer"))
"""The columns that name a row's arm."""


def table_view(name: str, caption: str, columns: Sequence[Column], rows: Iterable[Row]) -> TableView:
    """The table with a row for each object."""
    given = list(rows)
    return TableView(name, caption, columns, [*zip(*(column.cells(given) for column in columns), strict=True)])
