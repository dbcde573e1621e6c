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
        name = row["baseline"]
        look = ArmStyle(1, name, name, *style_of(KNOWN.index(name)))
        gain = float(row["gain"])
        low = float(row["ci_low"])
        high = float(row["ci_high"])
        is_sure = row["verdict"] in ("better", "worse")
        title = f"{row['arena']}, {row['metric']}"
        panels.setdefault(title, []).append(Interval(name, name, look, gain, low, high, is_sure))
        margins[title] = float(row["margin"])
    with figure_options(WIDTH):
        drawn = draw_intervals(
            panels,
            "readme",
            "Gain of PsiLogic",
            "gain of PsiLogic over each (right is better)",
            "Filled: better or worse.",
            row_height=LABEL_HEIGHT + 0.04,
            margins=margins,
        )
    assert drawn is not None
    return drawn.svg


def dark(svg: str) -> str:
    """The same picture in dark colors."""
    by_light = dict(COLORS.values())

    def in_the_dark(color: re.Match[str]) -> str:
        return by_light.get(color[0], color[0])

    return re.sub(r"#[0-9a-f]{6}", in_the_dark, svg)


if __name__ == "__main__":
    light = picture()
    for name, text in (("light", light), ("dark", dark(light))):
        (DOCS / f"results/mini/figures/readme-{name}.svg").write_text(text)
