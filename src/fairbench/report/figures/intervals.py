"""Figures with a row for each value and its interval."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from fairbench.common.formatting import interval
from fairbench.report.figures.canvas import TOP, finished, panels
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import common_label, draw_common, height_of_common, name_rows, width_for
from fairbench.report.figures.panel import Panel, Point, mark
from fairbench.report.figures.style import ArmStyle
from fairbench.report.figures.text import LABEL_SIZE, thin_ticks

ROW = 0.3
"""The height in inches of a row."""
TICKS = 0.35
"""The inches below the rows, for the ticks."""
SINGLE: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 4, "markeredgewidth": 0, "alpha": 0.6}
BELOW = 0.32
"""How far below its row a point of a single seed is, as a share of the row."""
MOST_LEFT = 2.9
"""The most inches at the left of a panel for the labels of its rows."""


class Interval(NamedTuple):
    """A row with a value, and with its interval, if it has one. Unless `sure`, the marker of the value is empty.

    `singles` are the values of single seeds, of which the value is the mean.
    """

    label: str
    name: str
    style: ArmStyle
    value: float
    low: float | None
    high: float | None
    sure: bool = True
    singles: Sequence[float] = ()


def draw_intervals(
    rows: Mapping[str, Sequence[Interval]],
    name: str,
    title: str,
    axis: str,
    caption: str,
    row_height: float = ROW,
    margins: Mapping[str, float] | None = None,
    reverse: bool = False,
) -> Drawing | None:
    """Draw a panel for each arena, with a row for each value and a line at 0.

    Args:
        rows: the rows of each panel.
        name: the name of the figure.
        title: the title of the figure.
        axis: the label of the x axis, once below all panels.
        caption: the caption of the figure.
        row_height: the height of a row in inches.
        margins: a margin for each panel that is drawn as a band; None for no bands.
        reverse: whether lower values are on the right.

    Returns:
        The figure; None without any row.
    """
    if not rows:
        return None
    labels: list[str] = []
    for arena_rows in rows.values():
        labels += [row.label for row in arena_rows]
    most_rows = max(len(arena_rows) for arena_rows in rows.values())
    label = common_label(axis, number_of_panels=len(rows))
    figure, by_arena = panels(
        titles={arena: arena for arena in rows},
        height=TOP + TICKS + row_height * most_rows,
        left=min(MOST_LEFT, width_for(labels)),
        bottom=TICKS,
        legend=height_of_common(label),
    )
    draw_common(figure, label)
    for arena, panel in by_arena.items():
        panel.columns = (axis, "low", "high")
        panel.axes.axvline(0, color=LIGHT["edge"], linewidth=1)
        for place, row in enumerate(rows[arena]):
            _draw_row(panel, place, row)
        name_rows(panel, [(row.label, row.style) for row in rows[arena]], size=LABEL_SIZE)
        if margins:
            _draw_margin(panel.axes, margins[arena])
        if reverse:
            panel.axes.invert_xaxis()
    return finished(figure, by_arena, name, title, caption, axis)


def _draw_row(panel: Panel, place: int, row: Interval) -> None:
    """Draw a row of a panel: the interval as a line, the value as a marker on the line, and single seeds below."""
    style = row.style
    if row.singles:
        places = [place + BELOW] * len(row.singles)
        mark(panel, style, *panel.axes.plot(row.singles, places, color=style.color, **SINGLE))
    line = [row.value]
    if row.low is not None and row.high is not None:
        line = [row.low, row.value, row.high]
    lines = panel.axes.plot(
        line,
        [place] * len(line),
        color=style.color,
        linewidth=1.8,
        marker=style.marker,
        markersize=7,
        markerfacecolor=style.color if row.sure else LIGHT["paper"],
        markevery=[len(line) // 2],  # only the value
    )
    mark(panel, style, *lines)
    text = f"{row.name}: {interval(row.value, row.low, row.high)}"
    numbers = (row.value, row.low, row.high)
    panel.points.append(Point(x=row.value, y=place, arm=style.index, numbers=numbers, text=text))
    panel.said.append(f"{text}.")


def _draw_margin(axes: Axes, margin: float) -> None:
    """Draw the margin as a band around 0. Beyond the band the axis is logarithmic."""
    axes.axvspan(-margin, margin, color=LIGHT["margin"], linewidth=0, zorder=0)
    axes.set_xscale("symlog", linthresh=margin)
    farthest = float(max(map(abs, axes.get_xlim())))
    lowest = math.floor(math.log10(margin)) + 1
    highest = math.floor(math.log10(farthest))
    decades = [10.0**exponent for exponent in range(lowest, highest + 1)]
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_locator(FixedLocator(thin_ticks(axes, [margin, *decades])))
    axes.xaxis.set_minor_locator(NullLocator())
