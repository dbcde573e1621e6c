"""The declaration of what a report shows of an analysis, and a report: files, a page, and text for a terminal."""

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
from fairbench.common.console import unwrapped
from fairbench.common.errors import attempted, unknown
from fairbench.common.files import write_atomically
from fairbench.common.formatting import plural
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.style import ArmStyles
from fairbench.report.render.terminal import flag_lines, rich_table
from fairbench.report.table import Table, table_of
from fairbench.report.view import Cell, Row, TableView, TextColumn, table_view

SourceT = TypeVar("SourceT")
"""The source of a report: the analyses of a study, two studies, or a study and a publication."""


@dataclass(frozen=True)
class Output(Generic[SourceT]):
    """An analysis as a report shows it. Attributes that are functions take the source of the report.

    Attributes:
        name: the name of its table, its figure and its data file.
        title: the heading of the table on the page.
        rows: the objects for which the table and the data file have a row.
        columns, caption: the columns and the caption of the table.
        shown: the rows of the table, if they are not `rows`.
        view: the whole table, where its parts depend on each other; instead of `columns` and `caption`.
        kind: the dataclass of the rows. With it, the rows are also written to a data file.
        data: the data file, if it is not that of `rows`.
        file: the name of the data file, if it is not that of the table.
        always: whether the data file is written without a row too.
        figure: draws the figure; the second argument is the style of each arm.
        finding: a topic in a few words, and a statement about it, which may be empty.
        texts: paragraphs below the table.
        folded: long texts such as tracebacks, each with a summary; the page shows a text when the reader opens it.
        open_up_to: the most rows with which the table on the page is open from the start. If it is not 0, the figure is
            open too.
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
        """The name of the data file."""
        file = self.file or self.name
        if "." in file:
            return file
        return f"{file}.csv"

    @property
    def table_name(self) -> str:
        """The name of the data file without its ending."""
        return Path(self.file_name).stem

    @property
    def has_table(self) -> bool:
        """Whether the output has a table."""
        return bool(self.columns or self.view)

    def table_view(self, source: SourceT) -> TableView:
        """The table as text, made from the source of a report."""
        if self.view:
            return self.view(source)
        caption = self.caption(source) if callable(self.caption) else self.caption
        columns = self.columns(source) if callable(self.columns) else self.columns
        shown = self.shown or self.rows
        return table_view(self.name, caption, columns, shown(source))

    def no_table(self, reason: str) -> TableView:
        """A table with one cell, which says why the real table cannot be made."""
        cell = Cell(f"This table cannot be made: {reason}.")
        return TableView(self.name, caption="", columns=[TextColumn("", str)], rows=[[cell]])

    def table(self, source: SourceT) -> Table[Any] | None:
        """The table of values in the data file; None if there is no data file."""
        if self.data:
            return self.data(source)
        if self.kind:
            return table_of(self.kind, self.rows(source))
        return None


@dataclass(frozen=True)
class Section(Generic[SourceT]):
    """A part of the page, with outputs in their order.

    Attributes:
        name: the anchor of the section on the page.
        always: whether the page has the section even if it is empty.
    """

    name: str
    title: str
    outputs: Sequence[Output[SourceT]]
    always: bool = False


@dataclass
class Document(Generic[SourceT]):
    """A report. A caller that needs figures draws them and sets `figures`.

    Attributes:
        source: the source of the report, which is the argument of all functions of its sections.
        title, lead: the heading of the page, and the source in a few sentences.
        flags: the results of checks. On the page, each fail is a banner.
        files: the files that were written, the page last.
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
        """The report for a terminal: flags, tables, findings and the paths of the files. If brief, only the paths."""
        content: list[RenderableType] = []
        if not self.brief:
            content += self._flag_lines()
            content += self._terminal_tables()
            content += self._finding_lines()
        if self.failed:
            content.append(Text(f"{plural(self.failed, 'trial')} failed", "bold red"))
        content.append(unwrapped(self._where()))
        return Group(*content)

    def _flag_lines(self) -> Iterator[RenderableType]:
        """A line for every fail and warn, and one with the number of notes."""
        yield from flag_lines(self.flags)
        notes = sum(flag.severity == "note" for flag in self.flags)
        if notes:
            study = shlex.quote(str(self.page.parent))
            yield unwrapped(f"{plural(notes, 'note')}; fairbench audit {study} shows them")

    def _terminal_tables(self) -> Iterator[RenderableType]:
        """The tables that a terminal shows, if they have a row."""
        for output in self.outputs:
            if output.in_terminal and output.name in self.tables:
                yield rich_table(self.tables[output.name])

    def _finding_lines(self) -> Iterator[RenderableType]:
        """A line for each finding, with its topic."""
        for topic, statement in self.findings.items():
            yield Text.assemble((topic, "bold"), ": ", statement)

    def _where(self) -> str:
        """A sentence with the paths of the files."""
        if self.page_name:
            return f"everything in {self.page.parent}, the report in {self.page}"
        return f"tables in {', '.join(map(str, self.files))}"

    @property
    def page(self) -> Path:
        """The path of the HTML page."""
        return self.files[-1]

    @property
    def outputs(self) -> list[Output[SourceT]]:
        """The outputs of all sections, in the order of the page."""
        outputs: list[Output[SourceT]] = []
        for section in self.sections:
            outputs += section.outputs
        return outputs

    @cached_property
    def tables(self) -> dict[str, TableView]:
        """Every table that has a row, by its name. A table that cannot be made is replaced by one that says why."""
        tables = {}
        for output in self.outputs:
            if not output.has_table:
                continue
            view = attempted(partial(output.table_view, self.source), output.no_table)
            if view.rows:
                tables[view.name] = view
        return tables

    @cached_property
    def findings(self) -> dict[str, str]:
        """Statements of the analyses by topic, in the order of the page. Empty statements are left out."""
        statements = {}
        for output in self.outputs:
            if output.finding is None:
                continue
            topic, state = output.finding
            statements[topic] = attempted(partial(state, self.source), "This cannot be computed: {}.".format)
        return {topic: statement for topic, statement in statements.items() if statement}

    def texts(self, name: str) -> list[str]:
        """The paragraphs of an output, by its name; empty if there is no such output."""
        for output in self.outputs:
            if output.name == name:
                return list(output.texts(self.source))
        return []

    def write_data(self, directory: Path) -> dict[str, Table[Any]]:
        """Write the data files. Each is written before the next one is made, to save memory.

        Returns:
            The table of each file by the name of the file, without rows.

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
        """The table of values in a data file, with the table of text that shows it.

        `name` is the name of the file without its ending.

        Raises:
            UsageError: there is no such file.
        """
        for output in self.outputs:
            if output.table_name != name:
                continue
            table = output.table(self.source)
            if table is None:
                continue
            if not output.has_table:
                return table
            return replace(table, report_view=output.table_view(self.source))
        known = [output.table_name for output in self.outputs if output.kind or output.data]
        raise unknown("table", name, known)
