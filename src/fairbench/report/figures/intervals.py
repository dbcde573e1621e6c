"""Values with their intervals, a row for each: the figures of causes, shocks and the leaderboard."""

from collections.abc import Sequence
from typing import NamedTuple

from fairbench.report.figures.canvas import BOTTOM, TOP, Drawing, Look, Panel, finished, mark, panels
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.labels import name_rows, width_for
from fairbench.report.tables.numbers import interval

ROW = 0.3
"""Inches of a row with an interval."""


class Interval(NamedTuple):
    """A value with its interval, in a row of its own.

    Attributes:
        label: its name.
        look: of the arm that it belongs to.
        value: the value.
        low: lower end, None without an interval.
        high: upper end.
        sure: whether it is filled.
    """

    label: str
    look: Look
    value: float
    low: float | None
    high: float | None
    sure: bool = True


def draw_intervals(rows: dict[str, list[Interval]], name: str, title: str, axis: str, caption: str) -> Drawing | None:
    """A panel for each arena, with a row for each value."""
    if not rows:
        return None
    left = min(2.9, width_for(row.label for of_arena in rows.values() for row in of_arena))
    height = TOP + BOTTOM + ROW * max(map(len, rows.values()))
    figure, by_arena = panels({arena: arena for arena in rows}, height, left=left)
    for arena, panel in by_arena.items():
        panel.axes.set_xlabel(axis)
        draw_rows(panel, rows[arena])
    return finished(figure, by_arena, name, title, caption)


def draw_rows(panel: Panel, rows: Sequence[Interval]) -> None:
    """Draw rows of values with their intervals, the first at the top, and a line at 0."""
    axes = panel.axes
    axes.axvline(0, color=LIGHT["edge"], linewidth=1)
    for i, row in enumerate(rows):
        look = row.look
        if row.low is not None and row.high is not None:
            mark(panel, look, *axes.plot([row.low, row.high], [i, i], color=look.color, linewidth=1.8))
        filling = look.color if row.sure else LIGHT["paper"]
        dots = axes.plot(row.value, i, color=look.color, marker=look.marker, linestyle="", markersize=7)
        dots[0].set_markerfacecolor(filling)
        mark(panel, look, *dots)
        text = f"{row.label}: {interval(row.value, row.low, row.high)}"
        panel.points.append((row.value, i, look.index, text))
        panel.summary.append(f"{text}.")
    name_rows(panel, [(row.label, row.look) for row in rows], size=8)
