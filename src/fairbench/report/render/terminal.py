"""Reports and tables of text for a terminal."""

import io
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairbench.common.checks import STYLES, Flag
from fairbench.common.console import Terminal
from fairbench.common.formatting import plural
from fairbench.report.document import Document
from fairbench.report.view import Cell, TableView

LONGEST = 44
"""The most letters of a cell on a screen."""


def rich_table(view: TableView) -> Table:
    """A table without lines; names and numbers stay whole, and a `Terminal` leaves out columns that do not fit."""
    table, view = Table(box=None, padding=(0, 2, 0, 0), header_style="dim"), view.narrow
    for i, column in enumerate(view.columns):
        is_number = column.value is not None
        table.add_column(column.title, justify="right" if is_number else "left", no_wrap=i == 0 or is_number)
    for row in view.rows:
        table.add_row(*(cell.text for cell in row))
    return table


def screen(view: TableView, most: int) -> str:
    """The first rows of a table as plain text that is as wide as the terminal, with short cells."""
    file = io.StringIO()
    console = Terminal(file=file)
    console.width = shutil.get_terminal_size().columns
    table = rich_table(replace(view, rows=[*map(_short, view.rows[:most])]))
    for column in table.columns:
        column.no_wrap, column.overflow = True, "crop"  # a row is a line
    console.print(table)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    rows, note = lines[: len(table.rows) + 1], " ".join(lines[len(table.rows) + 1 :])
    note = note if len(note) <= console.width else f"{note[: console.width - 3]}..."
    return "\n".join([*rows, *([note] if note else [])])


def _short(row: Sequence[Cell]) -> list[Cell]:
    texts = [str(cell.text) for cell in row]
    short = [text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..." for text in texts]
    return [replace(cell, text=text) for cell, text in zip(row, short, strict=True)]


def print_report(report: Document[Any], directory: Path, console: Console) -> None:
    """Print the flags, the tables for a terminal, the findings, and the paths of the files."""
    print_flags(report.flags, console)
    if notes := sum(flag.severity == "note" for flag in report.flags):
        console.print(Text(f"{plural(notes, 'note')}; fairbench audit {directory} shows them"), soft_wrap=True)
    for output in report.outputs:
        if output.in_terminal and output.name in report.tables:
            console.print(rich_table(report.tables[output.name]))
    for finding in report.findings:
        console.print(Text.assemble((finding.topic, "bold"), ": ", finding.text))
    print_place(report, directory, console)


def print_place(report: Document[Any], directory: Path, console: Console) -> None:
    """Print the number of failed trials, and the paths of the files."""
    if report.failed:
        console.print(Text(f"{plural(report.failed, 'trial')} failed", "bold red"))
    tables = f"tables in {', '.join(map(str, report.files))}"
    where = f"everything in {directory}, the report in {report.page}" if report.page_name else tables
    console.print(Text(where), soft_wrap=True)


def print_flags(flags: Iterable[Flag], console: Console) -> None:
    """Print every fail and every warn."""
    for flag in flags:
        if flag.severity in ("fail", "warn"):
            console.print(Text(flag.text, STYLES[flag.severity]))
