"""Draw the picture of README.md and of the site's first page, from the published study of all optimizers.

.venv/bin/python docs/readme.py
"""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from fairbench.report.figures.canvas import finished, panels
from fairbench.report.figures.colors import COLORS, LIGHT
from fairbench.report.figures.drawing import figure_options

DOCS = Path(__file__).parent
WIDTH = 6.4
"""Inches of the picture, whose text is then readable on a phone too."""
ROW = 0.165
"""Inches of the row of an optimizer."""
COLORS_OF = {"better": LIGHT["arm-blue"], "worse": LIGHT["arm-orange"]}
"""The color of the mark of a decided comparison; others are gray."""
TICKS = (-100, -10, -1, 0, 1, 10, 100)
"""Gains with a number at the axis, in margins."""


def comparisons() -> list[dict[str, str]]:
    """The comparisons of `zoo` with AdamW that have a gain."""
    with (DOCS / "results/zoo/significance.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["gain"]]


def in_margins(row: dict[str, str]) -> float:
    """The gain over AdamW, divided by the largest difference that does not matter."""
    return float(row["gain"]) / float(row["margin"])


def standing(rows: Sequence[dict[str, str]]) -> tuple[int, int, float]:
    """The place of an optimizer in the picture: by the wins, then the fewest losses, then the median gain."""
    verdicts = [row["verdict"] for row in rows]
    gains = sorted(in_margins(row) for row in rows)
    return verdicts.count("better"), -verdicts.count("worse"), gains[len(gains) // 2]


def optimizers() -> list[tuple[str, list[dict[str, str]]]]:
    """The comparisons of each optimizer, the best optimizer first."""
    rows_of: dict[str, list[dict[str, str]]] = {}
    for row in comparisons():
        rows_of.setdefault(row["optimizer"], []).append(row)
    return sorted(rows_of.items(), key=lambda item: standing(item[1]), reverse=True)


def draw_row(axes: Axes, place: int, rows: Sequence[dict[str, str]]) -> None:
    """Draw a mark for each task of an optimizer. Decided ones are filled, and wins have the name of the task."""
    for row in rows:
        gain = in_margins(row)
        color = COLORS_OF.get(row["verdict"], LIGHT["edge"])
        is_decided = row["verdict"] in COLORS_OF
        filling = color if is_decided else LIGHT["paper"]
        size = 8 if is_decided else 5
        axes.plot(gain, place, "o", color=color, markersize=size, markerfacecolor=filling, clip_on=False)
        if row["verdict"] == "better":
            axes.annotate(row["arena"], (gain, place), (8, 0), textcoords="offset points", va="center", fontsize=10)


def picture() -> str:
    """The gain of every optimizer over AdamW in each task of `zoo`, as SVG in light colors."""
    shown = optimizers()
    title = f"{len(shown)} optimizers against AdamW in four tasks"
    height = ROW * len(shown) + 1.1
    with figure_options(WIDTH, text=12):
        figure, by_arena = panels({"all": title}, height=height, left=1.4, right=0.4, bottom=0.65)
        axes = by_arena["all"].axes
        axes.axvspan(-1, 1, color=LIGHT["rule"], linewidth=0, zorder=0)
        axes.axvline(0, color=LIGHT["edge"], linewidth=1)
        for place, (_, rows) in enumerate(shown):
            draw_row(axes, place, rows)
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.minorticks_off()
        axes.set_xlabel("gain over AdamW, as a multiple of the difference that matters\nworse  ←     → better")
        axes.set_yticks(range(len(shown)), [name for name, _ in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.grid(axis="x", visible=False)
        drawn = finished(figure, {}, "gains", title, caption())
    return drawn.svg


def caption() -> str:
    """What the picture shows, for screen readers."""
    wins = [f"{row['optimizer']} in {row['arena']}" for row in comparisons() if row["verdict"] == "better"]
    return f"Gains over AdamW in four small tasks. Better than AdamW: {', '.join(wins) or 'none'}."


def dark(svg: str) -> str:
    """The same picture in dark colors."""
    by_light = dict(COLORS.values())

    def in_the_dark(color: re.Match[str]) -> str:
        return by_light.get(color[0], color[0])

    return re.sub(r"#[0-9a-f]{6}", in_the_dark, svg)


if __name__ == "__main__":
    light = picture()
    for name, text in (("light", light), ("dark", dark(light))):
        (DOCS / f"static/gains-{name}.svg").write_text(text)
