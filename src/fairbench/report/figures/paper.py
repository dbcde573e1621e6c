"""Figures for a paper: in the widths of its columns and text, and each panel of a column by itself."""

import re

from fairbench.analysis.analyses import Analyses
from fairbench.common.files import Content
from fairbench.report.figures.all_figures import draw_figures

COLUMN, TEXT = 3.3, 5.5
"""Inches of a column of two, and of text in a single column."""
NORMAL_TEXT = 8.75
"""Points of normal text, with which the smallest has 7."""
PLAIN = re.compile(r"\w[\w.-]*")
"""What may stand in the name of a file; a panel with another name has its number instead."""


def paper_figures(analyses: Analyses) -> dict[str, Content]:
    """Each figure at both widths as PDF and SVG, and its panels at the width of a column, by the name of the file."""
    files: dict[str, Content] = {}
    for width in (COLUMN, TEXT):
        for figure in draw_figures(analyses, width, NORMAL_TEXT):
            at = f"figures/paper/{figure.name}_{width}in"
            files |= {f"{at}.svg": figure.svg, f"{at}.pdf": figure.save("pdf")}
            if width == COLUMN and len(figure.parts) > 1:
                for number, part in enumerate(figure.parts, 1):
                    panel = part.arena if PLAIN.fullmatch(part.arena) else number
                    at = f"figures/paper/{figure.name}_{panel}_{width}in"
                    files |= {f"{at}.svg": figure.save("svg", part), f"{at}.pdf": figure.save("pdf", part)}
    return files
