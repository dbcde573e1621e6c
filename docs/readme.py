"""Draw the picture of README.md, from the published results.

.venv/bin/python docs/readme.py
"""

import csv
import re
from pathlib import Path

from fairbench.report.figures.canvas import figure_options
from fairbench.report.figures.colors import COLORS
from fairbench.report.figures.intervals import Interval, draw_intervals
from fairbench.report.figures.panel import LABEL_HEIGHT
from fairbench.report.figures.style import KNOWN, ArmStyle, style_of

DOCS = Path(__file__).parent
WIDTH = 8.65
"""Inches of the picture: 830 pixels."""


def comparisons() -> list[dict[str, str]]:
    """The comparisons of `mini`."""
    with (DOCS / "results/mini/significance.csv").open() as file:
        return list(csv.DictReader(file))


def picture() -> str:
    """The gain of PsiLogic over each baseline in the arenas of `mini`, as SVG in light colors."""
    panels: dict[str, list[Interval]] = {}
    margins = {}
    for row in comparisons():
        name, sure = row["baseline"], row["verdict"] in ("better", "worse")
        look = ArmStyle(1, name, name, *style_of(KNOWN.index(name)))
        gain, low, high, margin = (float(row[x]) for x in ("gain", "ci_low", "ci_high", "margin"))
        title = f"{row['arena']}, {row['metric']}"
        panels.setdefault(title, []).append(Interval(name, name, look, gain, low, high, sure))
        margins[title] = margin
    about = "Gain of PsiLogic", "gain of PsiLogic over each (right is better)", "Filled: better or worse."
    with figure_options(WIDTH):
        drawn = draw_intervals(panels, "readme", *about, row_height=LABEL_HEIGHT + 0.04, margins=margins)
    assert drawn is not None
    return drawn.svg


def dark(svg: str) -> str:
    """The same picture in dark colors."""
    by_light = dict(COLORS.values())
    return re.sub(r"#[0-9a-f]{6}", lambda color: by_light.get(color[0], color[0]), svg)


if __name__ == "__main__":
    light = picture()
    for name, text in (("light", light), ("dark", dark(light))):
        (DOCS / f"results/mini/figures/readme-{name}.svg").write_text(text)
