"""Reports and tables of text for a terminal."""

import io
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fairbench.common.checks import STYLES, Flag
from fairbench.common.console import Terminal, text_table, whole
from fairbench.common.formatting import plural
from fairbench.report.document import Document
from fairbench.report.view import Cell, TableView

LONGEST = 44
"""The most letters of a cell on a screen."""


def rich_table(view: TableView) -> Table:
    """A table without lines; names and numbers stay whole, and a `Terminal` leaves out columns that do not fit."""
    view = view.narrow
    return text_table(
        [(x.title, x.value is not None) for x in view.columns], ([x.text for x in row] for row in view.rows)
    )


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


def report_view(report: Document[Any]) -> Group:
    """The flags, the tables for a terminal, the findings, and the paths of the files."""
    notes = sum(flag.severity == "note" for flag in report.flags)
    shown = [x.name for x in report.outputs if x.in_terminal and x.name in report.tables]
    return Group(
        *flag_lines(report.flags),
        *([whole(f"{plural(notes, 'note')}; fairbench audit {report.page.parent} shows them")] if notes else []),
        *(rich_table(report.tables[name]) for name in shown),
        *(Text.assemble((finding.topic, "bold"), ": ", finding.text) for finding in report.findings),
        place_view(report),
    )


def place_view(report: Document[Any]) -> Group:
    """The number of failed trials, and the paths of the files."""
    tables = f"tables in {', '.join(map(str, report.files))}"
    where = f"everything in {report.page.parent}, the report in {report.page}" if report.page_name else tables
    failed = [Text(f"{plural(report.failed, 'trial')} failed", "bold red")] if report.failed else []
    return Group(*failed, whole(where))


def flag_lines(flags: Iterable[Flag]) -> list[Text]:
    """Every fail and every warn."""
    return [Text(flag.text, STYLES[flag.severity]) for flag in flags if flag.severity in ("fail", "warn")]
