"""The verdict table and the findings for a terminal."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairbench.report import Report
from fairbench.report.page import p_value, signed

NARROW = 72
"""Columns of a terminal below which the interval is left out."""


def print_verdicts(report: Report, directory: Path, console: Console) -> None:
    """Print the verdict table, the findings and where the files lie.

    Args:
        report: what `write_report` returned.
        directory: the output directory.
        console: where to print.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("arena", "baseline"):
        table.add_column(column, no_wrap=True)
    table.add_column("verdict", min_width=12)
    wide = console.width >= NARROW
    for column in ("advantage", "95% CI", "Holm p") if wide else ("advantage", "Holm p"):
        table.add_column(column, justify="right", no_wrap=True)
    for c in report.comparisons:
        verdict = Text(c.statement, "bold" if c.verdict == "better" else "")
        interval = "–" if c.ci_low is None else f"[{signed(c.ci_low)}, {signed(c.ci_high)}]"
        numbers = [signed(c.advantage), interval, p_value(c.p_holm)]
        table.add_row(c.arena, c.baseline, verdict, *(numbers if wide else numbers[::2]))
    console.print(table)
    for finding in report.findings:
        console.print(Text.assemble((finding.topic, "bold"), ": ", finding.text))
    console.print(Text(f"everything in {directory}, the report in {report.page}"), soft_wrap=True)
