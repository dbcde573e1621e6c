"""Tables of text. The page, LaTeX and terminals lay them out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from fairbench.common.wording import Wording

if TYPE_CHECKING:
    from rich.text import Text

Row = Any
"""The object that a row of a table shows."""


@dataclass(frozen=True, slots=True)
class Emphasized:
    """Text for pages, terminals and LaTeX that is bold if it is a win. No other code makes text bold.

    Attributes:
        bold: a pattern for the part of the text that is bold in LaTeX.
        html: the HTML that a page has in place of the text.
        rank, style: for a verdict in a grid, its place when the grid is sorted, and the classes of its cell.
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
        """The escaped text, which templates insert."""
        if self.html:
            return self.html
        text = escape(self.text)
        if self.is_win:
            return Markup('<strong class="win">{}</strong>').format(text)
        return text

    def latex(self, source: str) -> str:
        """LaTeX source of the text, with bold commands if it is a win. `source` is the source without them."""
        if not self.is_win:
            return source
        return re.sub(self.bold, r"\\textbf{\g<0>}", source, count=1)

    def __rich__(self) -> Text:
        from rich.text import Text  # slow to import

        style = "bold" if self.is_win else ""
        return Text(self.text, style)


@dataclass(frozen=True)
class Cell:
    """One cell. It is sorted by its value, or by its text without a value.

    `more` are the further numbers that its text shows.
    """

    text: str | Emphasized
    value: float | None = None
    more: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class TextColumn:
    """One column of a table of text.

    Attributes:
        show: returns the text for a row.
        value: returns the number that the text shows. A column with numbers is aligned right.
        narrow: whether LaTeX and terminals, which are narrower than the page, have the column too.
        more: functions by name, each of which returns a further number that the text shows.
        together: returns the texts for all rows at once, in place of `show`, so that their decimals agree.
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
        """The text of each row."""
        if self.together:
            return self.together(rows)
        return [self.show(row) for row in rows]

    def _values(self, rows: Sequence[Row]) -> Sequence[float | None]:
        """The number of each row; None if the column has no numbers."""
        if self.value is None:
            return [None] * len(rows)
        return [self.value(row) for row in rows]


@dataclass(frozen=True)
class TableView:
    """A table as text. Its first column names the subject of each row.

    Attributes:
        name: its file name without extension.
        about: small text that the page shows after the name of a row or of a column.
    """

    name: str
    caption: str
    columns: Sequence[TextColumn]
    rows: Sequence[Sequence[Cell]]
    about: Mapping[str, str] = field(default_factory=dict)

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


def worded(view: TableView, wording: Wording) -> TableView:
    """A table with the titles of its columns and its caption in the words of a study. Cells stay as they are."""
    columns = [replace(column, title=wording.text(column.title)) for column in view.columns]
    return replace(view, caption=wording.text(view.caption), columns=columns)


def table_view(name: str, caption: str, columns: Sequence[TextColumn], rows: Iterable[Row]) -> TableView:
    """Make a table of text with a row for each object."""
    objects = list(rows)
    cells_by_column = [column.cells(objects) for column in columns]
    return TableView(name, caption, columns, rows=list(zip(*cells_by_column, strict=True)))
