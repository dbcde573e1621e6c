"""The report's tables in LaTeX, with booktabs; any engine compiles them, since they are ASCII."""

from collections.abc import Sequence

from fairbench.report.tables.model import Cell, TableView
from fairbench.report.tables.tex import escape
from fairbench.report.tables.verdict_text import VerdictText


def to_latex(table: TableView) -> str:
    r"""A table as a `tabular` for `\input`; it needs the packages booktabs and textcomp."""
    columns = "".join("r" if column.value else "l" for column in table.columns)
    lines = [
        f"% {escape(table.caption)}",
        "% needs the packages booktabs and textcomp",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _row([Cell(column.title) for column in table.columns]),
        r"\midrule",
        *map(_row, table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[Cell]) -> str:
    shown = (x.text.__latex__() if isinstance(x.text, VerdictText) else escape(x.text) for x in cells)
    return rf"{' & '.join(shown)} \\"
