"""Tables of text and flags for a terminal."""

import io
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fairbench.common.checks import SEVERITIES, STYLES, Flag, Severity
from fairbench.common.console import Terminal, text_table
from fairbench.report.view import Cell, TableView

LONGEST = 44
"""The most characters of a cell on a screen."""


def rich_table(view: TableView) -> Table:
    """A table without lines. Names and numbers stay whole; a `Terminal` leaves out columns that do not fit."""
    narrow = view.narrow
    columns = []
    for column in narrow.columns:
        is_number = column.value is not None
        columns.append((column.title, is_number))
    rows = ([cell.text for cell in row] for row in narrow.rows)
    return text_table(columns, rows)


def screen(view: TableView, most: int) -> str:
    """The first `most` rows of a table as plain text, with short cells, in lines that fit the terminal."""
    file = io.StringIO()
    console = Terminal(file=file)
    console.width = shutil.get_terminal_size().columns
    rows = [list(map(_shortened, row)) for row in view.rows[:most]]
    table = rich_table(replace(view, rows=rows))
    for column in table.columns:  # so that each row is one line
        column.no_wrap = True
        column.overflow = "crop"
    console.print(table)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    table_lines = len(table.rows) + 1  # the rows and the head
    shown = lines[:table_lines]
    note = " ".join(lines[table_lines:])  # the columns that are left out; empty without any
    if note:
        shown.append(_cut(note, console.width))
    return "\n".join(shown)


def _shortened(cell: Cell) -> Cell:
    """A cell with at most LONGEST characters."""
    return replace(cell, text=_cut(str(cell.text), LONGEST))


def _cut(text: str, most: int) -> str:
    """A text with at most `most` characters. A longer text is cut off, and ends with three dots."""
    if len(text) <= most:
        return text
    return f"{text[: most - 3]}..."


def audit_view(flags: Sequence[Flag]) -> Group:
    """Every flag with its advice, and the number of flags of each severity but "pass", which are not among them."""
    lines = []
    for flag in flags:
        lines.append(Text.assemble(f"{flag.severity}  ", (flag.text, STYLES[flag.severity])))
        lines.append(Text(f"      {flag.advice}", "dim"))
    wrong = [severity for severity in SEVERITIES if severity != "pass"]
    return Group(*lines, _counts(flags, wrong))


def checks_view(flags: Sequence[Flag]) -> Group:
    """The result and the advice of every check, and the number of checks of each severity, with those that pass."""
    rows = []
    for flag in flags:
        evidence = flag.evidence
        if flag.advice:
            evidence += f"\n-> {flag.advice}"
        rows.append((Text(flag.severity, STYLES[flag.severity]), flag.name, evidence))
    without_titles = [("", False)] * 3
    return Group(text_table(without_titles, rows), _counts(flags, SEVERITIES))


def _counts(flags: Sequence[Flag], severities: Sequence[Severity]) -> str:
    """The number of flags of each severity, in words."""
    parts = []
    for severity in severities:
        count = sum(flag.severity == severity for flag in flags)
        parts.append(f"{count} {severity}")
    return ", ".join(parts)


def flag_lines(flags: Iterable[Flag]) -> list[Text]:
    """A line for every flag that is a fail or a warn."""
    return [Text(flag.text, STYLES[flag.severity]) for flag in flags if flag.severity in ("fail", "warn")]
