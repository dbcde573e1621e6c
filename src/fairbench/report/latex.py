"""The report's tables in LaTeX, with booktabs; any engine compiles them, since they are ASCII."""

from collections.abc import Sequence

from fairbench.report.grids import Cell, Grid

ESCAPED = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\ttfamily\char34}",  # the roman fonts have no such quote in every encoding
    "[": "{[}",  # at the head of a row it would be an argument of the line break before it
    "]": "{]}",
    "-": "{-}",  # two of them would be a dash
    "'": r"{\textquotesingle}",
    "`": r"\textasciigrave{}",
    "\n": " ",
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "−": "$-$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "†": r"\dag{}",
    "…": r"\dots{}",
    "’": "'",
    "“": "``",
    "”": "''",
}


def escape(text: str) -> str:
    """Text as LaTeX prints it; a character that it cannot print becomes its number in Unicode, U+4E2D."""
    return "".join(ESCAPED.get(c) or (c if " " <= c <= "~" else rf"\texttt{{U+{ord(c):04X}}}") for c in text)


def to_latex(grid: Grid) -> str:
    r"""A table as a `tabular` to be `\input` where the document puts it; it needs the packages booktabs and textcomp.

    Args:
        grid: the table; what is strong in it is bold.
    """
    columns = "".join("r" if column.value else "l" for column in grid.columns)
    head = _row([Cell(column.title) for column in grid.columns])
    lines = [
        f"% {escape(grid.caption)}",
        "% needs the packages booktabs and textcomp",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *map(_row, grid.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[Cell]) -> str:
    shown = (rf"\textbf{{{escape(cell.text)}}}" if cell.strong else escape(cell.text) for cell in cells)
    return rf"{' & '.join(shown)} \\"
