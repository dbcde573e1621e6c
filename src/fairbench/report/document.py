"""What a report shows of an analysis, declared once; and a report: files, a page, and text for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from fairbench.report.view import Cell, Row, TableView, TextColumn, table_view

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
    columns: Sequence[TextColumn] | Callable[[SourceT], Sequence[TextColumn]] = ()
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
        if "." in file:
            return file
        return f"{file}.csv"

    @property
    def table_name(self) -> str:
        """The name of its data file without the ending."""
        return Path(self.file_name).stem

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
        shown = self.shown or self.rows
        return table_view(self.name, caption, columns, shown(source))

    def no_table(self, reason: str) -> TableView:
        """What stands in the place of a table that cannot be made."""
        cell = Cell(f"This table cannot be made: {reason}.")
        return TableView(self.name, caption="", columns=[TextColumn("", str)], rows=[[cell]])

    def table(self, source: SourceT) -> Table[Any] | None:
        """The table of values that the data file has; None without one."""
        if self.data:
            return self.data(source)
        if self.kind:
            return table_of(self.kind, self.rows(source))
        return None


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
            content += self._flag_lines()
            content += self._terminal_tables()
            content += self._finding_lines()
        if self.failed:
            content.append(Text(f"{plural(self.failed, 'trial')} failed", "bold red"))
        content.append(whole(self._where()))
        return Group(*content)

    def _flag_lines(self) -> Iterator[RenderableType]:
        """Every fail and warn, and the number of notes."""
        yield from flag_lines(self.flags)
        notes = sum(flag.severity == "note" for flag in self.flags)
        if notes:
            study = shlex.quote(str(self.page.parent))
            yield whole(f"{plural(notes, 'note')}; fairbench audit {study} shows them")

    def _terminal_tables(self) -> Iterator[RenderableType]:
        for output in self.outputs:
            if output.in_terminal and output.name in self.tables:
                yield rich_table(self.tables[output.name])

    def _finding_lines(self) -> Iterator[RenderableType]:
        for topic, statement in self.findings.items():
            yield Text.assemble((topic, "bold"), ": ", statement)

    def _where(self) -> str:
        """The paths of the files in a sentence."""
        if self.page_name:
            return f"everything in {self.page.parent}, the report in {self.page}"
        return f"tables in {', '.join(map(str, self.files))}"

    @property
    def page(self) -> Path:
        """The HTML page."""
        return self.files[-1]

    @property
    def outputs(self) -> list[Output[SourceT]]:
        """Everything that its sections show, in the order of the page."""
        found: list[Output[SourceT]] = []
        for section in self.sections:
            found += section.outputs
        return found

    @cached_property
    def tables(self) -> dict[str, TableView]:
        """Every table that has a row, by its name."""
        found = {}
        for output in self.outputs:
            if not output.has_table:
                continue
            view = attempted(partial(output.table_view, self.source), output.no_table)
            if view.rows:
                found[view.name] = view
        return found

    @cached_property
    def findings(self) -> dict[str, str]:
        """Statements by their topics that flags and tables do not make, the most important first."""
        found = {}
        for output in self.outputs:
            if output.finding is None:
                continue
            topic, state = output.finding
            found[topic] = attempted(partial(state, self.source), "This cannot be computed: {}.".format)
        return {topic: statement for topic, statement in found.items() if statement}

    def write_data(self, directory: Path) -> dict[str, Table[Any]]:
        """Write each data file before the next is made; returns their columns by the names of the files, without rows.

        Raises:
            UsageError: the directory cannot be written.
        """
        written = {}
        for output in self.outputs:
            table = attempted(partial(output.table, self.source), lambda reason: None)  # the page has the reason
            if table is None:
                continue
            if output.always or table:
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
            if output.table_name != name:
                continue
            found = output.table(self.source)
            if found is None:
                continue
            if not output.has_table:
                return found
            return replace(found, report_view=output.table_view(self.source))
        known = [output.table_name for output in self.outputs if output.kind or output.data]
        raise unknown("table", name, known)
