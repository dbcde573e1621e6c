"""A report: all that its sections show of a source, written as files, as a page, or to a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic

from rich.console import Group, RenderableType
from rich.text import Text

from fairbench.common.checks import Flag
from fairbench.common.console import whole
from fairbench.common.errors import unknown
from fairbench.common.files import write_atomically
from fairbench.common.formatting import plural
from fairbench.report.figures.canvas import Drawing
from fairbench.report.figures.style import ArmStyles
from fairbench.report.output import Output, Section, SourceT
from fairbench.report.render.terminal import flag_lines, rich_table
from fairbench.report.table import Table
from fairbench.report.view import TableView


@dataclass(frozen=True)
class Finding:
    """A statement about the source: its topic in a few words, and one or more sentences."""

    topic: str
    text: str


@dataclass
class Document(Generic[SourceT]):
    """A report before it is written; figures are drawn by those that need them.

    Attributes:
        source: what it is about, the argument of all functions of its sections.
        title, lead: the heading of the page, and the source in a few sentences.
        flags: the results of checks; each fail is a banner.
        styles: the style of each arm in the figures.
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

    @property
    def ok(self) -> bool:
        """Whether no trial failed."""
        return not self.failed

    def __rich__(self) -> Group:
        """The flags, the tables for a terminal, the findings, and the paths of the files; the last alone if brief."""
        notes = sum(flag.severity == "note" for flag in self.flags)
        shown = [x.name for x in self.outputs if x.in_terminal and x.name in self.tables]
        content: list[RenderableType] = (
            []
            if self.brief
            else [
                *flag_lines(self.flags),
                *([whole(f"{plural(notes, 'note')}; fairbench audit {self.page.parent} shows them")] if notes else []),
                *(rich_table(self.tables[name]) for name in shown),
                *(Text.assemble((finding.topic, "bold"), ": ", finding.text) for finding in self.findings),
            ]
        )
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
        views = (output.table_view(self.source) for output in self.outputs if output.has_table)
        return {view.name: view for view in views if view.rows}

    @cached_property
    def findings(self) -> list[Finding]:
        """The statements that flags and tables do not make, the most important first."""
        found = ((topic, of(self.source)) for topic, of in (x.finding for x in self.outputs if x.finding))
        return [Finding(topic, text) for topic, text in found if text]

    def data(self) -> Iterator[tuple[str, Table[Any]]]:
        """The name and the table of each data file, one after the other, since all together fill the memory."""
        for output in self.outputs:
            table = output.table(self.source)
            if table is not None and (output.always or table):
                yield output.file_name, table

    def write_data(self, directory: Path) -> dict[str, Table[Any]]:
        """Write the data files; returns their columns by the names of the files, without rows.

        Raises:
            UsageError: the directory cannot be written.
        """
        written = {}
        for name, table in self.data():
            write_atomically(directory / name, table.content())
            written[name] = table.without_rows
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
        raise unknown("table", name, [Path(output.file_name).stem for output in self.outputs if output.has_data])
