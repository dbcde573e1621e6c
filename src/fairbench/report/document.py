"""What a report shows of an analysis, declared once; and a report: files, a page, and text for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

from fairbench.common.checks import Flag
from fairbench.common.console import whole
from fairbench.common.errors import attempted, unknown
from fairbench.common.files import write_atomically
from fairbench.common.formatting import plural
from fairbench.report.figures.canvas import Drawing
from fairbench.report.figures.style import ArmStyles
from fairbench.report.render.terminal import flag_lines, rich_table
from fairbench.report.table import Table, table_of
from fairbench.report.view import Cell, Column, Row, TableView, table_view

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
        open_up_to: the most rows with which the table on the page is open from the start; its figure is if it is not 0.
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

    def no_table(self, reason: str) -> TableView:
        """What stands in the place of a table that cannot be made."""
        return TableView(self.name, "", [Column("", str)], [[Cell(f"This table cannot be made: {reason}.")]])

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


@dataclass
class Document(Generic[SourceT]):
    """A report before it is written; figures are drawn by those that need them.

    Attributes:
        source: what it is about, the argument of all functions of its sections.
        title, lead: the heading of the page, and the source in a few sentences.
        flags: the results of checks; each fail is a banner.
        files: those that were written, the page last.
        failed: number of trials that failed.
        page_name: the name of the page's file; empty without a page.
        brief: whether a terminal shows only where the files are.
    """

    source: SourceT
    sections: Sequence[Section[SourceT]]
    title: str
    lead: str
    flags: Sequence[Flag]
    figures: Sequence[Drawing] = ()
    styles: ArmStyles = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    failed: int = 0
    page_name: str = ""
    brief: bool = False

    def __rich__(self) -> Group:
        """The flags, the tables for a terminal, the findings, and the paths of the files; the last alone if brief."""
        content: list[RenderableType] = []
        if not self.brief:
            content += flag_lines(self.flags)
            if notes := sum(flag.severity == "note" for flag in self.flags):
                study = shlex.quote(str(self.page.parent))
                content.append(whole(f"{plural(notes, 'note')}; fairbench audit {study} shows them"))
            shown = [x.name for x in self.outputs if x.in_terminal and x.name in self.tables]
            content += (rich_table(self.tables[name]) for name in shown)
            content += (Text.assemble((topic, "bold"), ": ", text) for topic, text in self.findings.items())
        failed = [Text(f"{plural(self.failed, 'trial')} failed", "bold red")] if self.failed else []
        tables = f"tables in {', '.join(map(str, self.files))}"
        where = f"everything in {self.page.parent}, the report in {self.page}" if self.page_name else tables
        return Group(*content, *failed, whole(where))

    @property
    def page(self) -> Path:
        """The HTML page."""
        return self.files[-1]

    @property
    def outputs(self) -> list[Output[SourceT]]:
        """Everything that its sections show, in the order of the page."""
        return [output for section in self.sections for output in section.outputs]

    @cached_property
    def tables(self) -> dict[str, TableView]:
        """Every table that has a row, by its name."""
        views = [attempted(partial(x.table_view, self.source), x.no_table) for x in self.outputs if x.has_table]
        return {view.name: view for view in views if view.rows}

    @cached_property
    def findings(self) -> dict[str, str]:
        """Statements by their topics that flags and tables do not make, the most important first."""
        found = {topic: partial(of, self.source) for topic, of in (x.finding for x in self.outputs if x.finding)}
        said = {topic: attempted(of, "This cannot be computed: {}.".format) for topic, of in found.items()}
        return {topic: text for topic, text in said.items() if text}

    def write_data(self, directory: Path) -> dict[str, Table[Any]]:
        """Write each data file before the next is made; returns their columns by the names of the files, without rows.

        Raises:
            UsageError: the directory cannot be written.
        """
        written = {}
        for output in self.outputs:
            table = attempted(partial(output.table, self.source), lambda reason: None)  # the page has the reason
            if table is not None and (output.always or table):
                write_atomically(directory / output.file_name, table.content())
                written[output.file_name] = replace(table, rows=())
        self.files += [directory / name for name in written]
        return written

    def table(self, name: str) -> Table[Any]:
        """A data file by its name without the ending, with the table of text that shows it.

        Raises:
            UsageError: there is no such file.
        """
        for output in self.outputs:
            found = output.table(self.source) if Path(output.file_name).stem == name else None
            if found is not None:
                return replace(found, report_view=output.table_view(self.source)) if output.has_table else found
        raise unknown("table", name, [Path(x.file_name).stem for x in self.outputs if x.kind or x.data])
