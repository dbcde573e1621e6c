"""Draw the picture of README.md, from the published results.

.venv/bin/python docs/readme.py
"""

import csv
import re
from pathlib import Path

from fairbench.report.figures.canvas import figure_options
from fairbench.report.figures.colors import COLORS
from fairbench.report.figures.intervals import Interval, draw_intervals
from fairbench.report.figures.labels import LABEL_HEIGHT
from fairbench.report.figures.style import KNOWN, ArmStyle, style_of

DOCS = Path(__file__).parent
SHOWN = ("PsiLogic", "Lion", "Muon", "SOAP", "SCION", "ScheduleFree", "ADOPT", "Adam")
"""The optimizers of the picture, out of those of the suite `zoo`."""
WIDTH = 8.65
"""Inches of the picture: 830 pixels."""


def comparisons() -> list[dict[str, str]]:
    """The comparisons of `zoo`."""
    with (DOCS / "results/zoo/significance.csv").open() as file:
        return list(csv.DictReader(file))


def picture() -> str:
    """The gain of some optimizers over AdamW in the arenas of `zoo`, as SVG in light colors."""
    panels: dict[str, list[Interval]] = {}
    margins = {}
    for row in comparisons():
        if row["optimizer"] in SHOWN:
            name, sure = row["optimizer"], row["verdict"] in ("better", "worse")
            look = ArmStyle(1, name, name, *style_of(KNOWN.index(name)))
            value, *ends = (float(row[x]) for x in ("gain", "ci_low", "ci_high"))
            low, high = (None, None) if row["verdict"].startswith("identical") else ends
            title = f"{row['arena']}, {row['metric']}"
            panels.setdefault(title, []).append(Interval(name, name, look, value, low, high, sure))
            margins[title] = float(row["margin"])
    ranked = {title: sorted(rows, key=lambda row: -row.value) for title, rows in panels.items()}
    about = "Gain over AdamW", "gain over AdamW (right is better)", "Filled: the verdict is better or worse."
    with figure_options(WIDTH):
        drawn = draw_intervals(ranked, "readme", *about, row_height=LABEL_HEIGHT + 0.04, margins=margins)
    assert drawn is not None
    return drawn.svg


def dark(svg: str) -> str:
    """The same picture in dark colors."""
    by_light = dict(COLORS.values())
    return re.sub(r"#[0-9a-f]{6}", lambda color: by_light.get(color[0], color[0]), svg)


if __name__ == "__main__":
    light = picture()
    for name, text in (("light", light), ("dark", dark(light))):
        (DOCS / f"results/zoo/figures/readme-{name}.svg").write_text(text)
