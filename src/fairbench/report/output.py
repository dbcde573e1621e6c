"""What a report shows of an analysis, declared once: its data file, table, figure, finding, and place on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fairbench.report.figures.canvas import Drawing
from fairbench.report.figures.style import ArmStyles
from fairbench.report.table import Table, table_of
from fairbench.report.view import Column, Row, TableView, table_view

SourceT = TypeVar("SourceT")
"""What a report is about: the analyses of a study, two studies, or a study and a publication."""


@dataclass(frozen=True)
class Output(Generic[SourceT]):
    """An analysis as a report shows it. What is a function has the report's source as its argument.

    Attributes:
        name: of its table, its figure and its data file.
        title: heading of the table on the page.
        rows: the objects that table and data file have a row for.
        columns, caption: of the table.
        shown: the rows of the table, if they are not `rows`.
        view: the whole table, where its parts depend on each other; instead of `columns` and `caption`.
        kind: the dataclass of the rows; with it they are a data file.
        data: the data file, if it is not that of `rows`.
        file: the name of the data file, if it is not that of the table.
        always: whether the data file is written without a row too.
        figure: draws the figure; the second argument is the style of each arm.
        finding: a topic in a few words, and a statement about it, which may be empty.
        texts: paragraphs below the table.
        folded: summaries of texts as they are, such as tracebacks, that are shown when asked for.
        open_up_to: the most rows with which the table on the page is open from the start.
        in_terminal: whether a terminal shows the table.
    """

    name: str
    title: str = ""
    rows: Callable[[SourceT], Sequence[Row]] = lambda _: ()
    columns: Sequence[Column] | Callable[[SourceT], Sequence[Column]] = ()
    caption: str | Callable[[SourceT], str] = ""
    shown: Callable[[SourceT], Iterable[Row]] | None = None
    view: Callable[[SourceT], TableView] | None = None
    kind: type | None = None
    data: Callable[[SourceT], Table[Any]] | None = None
    file: str = ""
    always: bool = False
    figure: Callable[[SourceT, ArmStyles], Drawing | None] | None = None
    finding: tuple[str, Callable[[SourceT], str]] | None = None
    texts: Callable[[SourceT], Iterable[str]] = lambda _: ()
    folded: Callable[[SourceT], Iterable[tuple[str, str]]] = lambda _: ()
    open_up_to: int = 0
    in_terminal: bool = False

    @property
    def file_name(self) -> str:
        """The name of its data file."""
        file = self.file or self.name
        return file if "." in file else f"{file}.csv"

    @property
    def has_data(self) -> bool:
        """Whether it has a data file."""
        return bool(self.kind or self.data)

    @property
    def has_table(self) -> bool:
        """Whether it is shown as a table."""
        return bool(self.columns or self.view)

    def table_view(self, source: SourceT) -> TableView:
        """The table of text."""
        if self.view:
            return self.view(source)
        caption = self.caption(source) if callable(self.caption) else self.caption
        columns = self.columns(source) if callable(self.columns) else self.columns
        return table_view(self.name, caption, columns, (self.shown or self.rows)(source))

    def table(self, source: SourceT) -> Table[Any] | None:
        """The table of values that the data file has; None without one."""
        if self.data:
            return self.data(source)
        return table_of(self.kind, self.rows(source)) if self.kind else None


@dataclass(frozen=True)
class Section(Generic[SourceT]):
    """A part of the page, in which its outputs follow each other.

    Attributes:
        name: its anchor.
        always: whether the page has it even if it would be empty.
    """

    name: str
    title: str
    outputs: Sequence[Output[SourceT]]
    always: bool = False
