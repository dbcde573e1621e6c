"""Values with their intervals, a row for each: the figures of causes, shocks and the leaderboard."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from fairbench.report.figures.axis_text import thin_ticks
from fairbench.report.figures.canvas import BOTTOM, TOP, Drawing, finished, panels
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.labels import name_rows, width_for
from fairbench.report.figures.panel import Panel, Point, mark
from fairbench.report.figures.style import ArmStyle
from fairbench.report.tables.numbers import interval

ROW = 0.3
"""The height in inches of a row."""


class Interval(NamedTuple):
    """A row with a value and its interval.

    Attributes:
        label: its text at the left, with a shortened name.
        name: the same with the whole name.
        style: of the arm that it belongs to.
        low, high: None without an interval.
        sure: whether its marker is filled.
    """

    label: str
    name: str
    style: ArmStyle
    value: float
    low: float | None
    high: float | None
    sure: bool = True


def draw_intervals(
    rows: dict[str, list[Interval]],
    name: str,
    title: str,
    axis: str,
    caption: str,
    row_height: float = ROW,
    margins: Mapping[str, float] | None = None,
    reverse: bool = False,
) -> Drawing | None:
    """A panel for each arena, with a row for each value.

    Args:
        margins: of each panel, drawn as a band.
        reverse: whether values rise to the left, since lower ones are better.
    """
    if not rows:
        return None
    left = min(2.9, width_for(row.label for of_arena in rows.values() for row in of_arena))
    height = TOP + BOTTOM + row_height * max(map(len, rows.values()))
    figure, by_arena = panels({arena: arena for arena in rows}, height, left=left)
    for arena, panel in by_arena.items():
        panel.axes.set_xlabel(axis)
        panel.columns = axis, "low", "high"
        _draw_rows(panel, rows[arena])
        if margins:
            _draw_margin(panel.axes, margins[arena])
        if reverse:
            panel.axes.invert_xaxis()
    return finished(figure, by_arena, name, title, caption)


def _draw_rows(panel: Panel, rows: Sequence[Interval]) -> None:
    """Draw rows of values with their intervals, the first at the top, and a line at 0."""
    axes = panel.axes
    axes.axvline(0, color=LIGHT["edge"], linewidth=1)
    for i, row in enumerate(rows):
        style = row.style
        along = [row.value]
        if row.low is not None and row.high is not None:
            along = [row.low, row.value, row.high]
        filling = {"markerfacecolor": style.color if row.sure else LIGHT["paper"], "markevery": [len(along) // 2]}
        options: dict[str, Any] = {
            "color": style.color,
            "linewidth": 1.8,
            "marker": style.marker,
            "markersize": 7,
            **filling,
        }
        mark(panel, style, *axes.plot(along, [i] * len(along), **options))
        text = f"{row.name}: {interval(row.value, row.low, row.high)}"
        panel.points.append(Point(row.value, i, style.index, (row.value, row.low, row.high), text))
        panel.summary.append(f"{text}.")
    name_rows(panel, [(row.label, row.style) for row in rows], size=9)


def _draw_margin(axes: Axes, margin: float) -> None:
    """Draw the margin as a band as wide as a decade beyond it, where the axis is logarithmic."""
    axes.axvspan(-margin, margin, color=LIGHT["rule"], linewidth=0, zorder=0)
    axes.set_xscale("symlog", linthresh=margin)
    farthest = float(max(map(abs, axes.get_xlim())))
    lowest, highest = math.floor(math.log10(margin)) + 1, math.floor(math.log10(farthest))
    ticks = [margin, *(10.0**k for k in range(lowest, highest + 1))]
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_locator(FixedLocator(thin_ticks(axes, ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
