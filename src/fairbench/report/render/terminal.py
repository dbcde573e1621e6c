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
from fairbench.report.view import TableView

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
    rows = [[replace(cell, text=_cut(str(cell.text), LONGEST)) for cell in row] for row in view.rows[:most]]
    table = rich_table(replace(view, rows=rows))
    for column in table.columns:
        column.no_wrap, column.overflow = True, "crop"  # a row is a line
    console.print(table)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    shown, note = lines[: len(table.rows) + 1], _cut(" ".join(lines[len(table.rows) + 1 :]), console.width)
    return "\n".join([*shown, *([note] if note else [])])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def audit_view(flags: Sequence[Flag]) -> Group:
    """Every flag with its advice, and the number of each severity."""
    lines = []
    for flag in flags:
        lines.append(Text.assemble(f"{flag.severity}  ", (flag.text, STYLES[flag.severity])))
        lines.append(Text(f"      {flag.advice}", "dim"))
    return Group(*lines, _counts(flags, SEVERITIES[:-1]))


def checks_view(flags: Sequence[Flag]) -> Group:
    """The result and the advice of every check, and the number of each severity."""
    rows = (
        (Text(x.severity, STYLES[x.severity]), x.name, x.evidence + (f"\n-> {x.advice}" if x.advice else ""))
        for x in flags
    )
    return Group(text_table([("", False)] * 3, rows), _counts(flags, SEVERITIES))


def _counts(flags: Sequence[Flag], severities: Sequence[Severity]) -> str:
    return ", ".join(f"{sum(flag.severity == x for flag in flags)} {x}" for x in severities)


def flag_lines(flags: Iterable[Flag]) -> list[Text]:
    """Every fail and every warn."""
    return [Text(flag.text, STYLES[flag.severity]) for flag in flags if flag.severity in ("fail", "warn")]
