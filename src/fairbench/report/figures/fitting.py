"""The text of a panel made to fit: ticks that do not overlap, and labels of the axes within the panel."""

import re

from matplotlib.axis import Axis
from matplotlib.ticker import ScalarFormatter

from fairbench.report.figures.panel import Panel
from fairbench.report.figures.text import LABEL_SIZE, TICK_SIZE, fit_ticks, in_lines, points_per_pixel

EDGE = 2
"""The points between a label and the edge of its panel."""
EVEN = (0.5, 0.6, 0.7, 0.8, 0.9)
"""The shares of the space that even lines may take, in the order in which they are tried."""
MOST_LINES = 3
"""The most lines below the x axis."""


def fit_text(panel: Panel) -> None:
    """Make the text of a panel fit.

    The ticks must not overlap, their common factor goes to the label of the axis, and the labels get lines that fit.
    """
    axes = panel.axes
    box = panel.box
    fit_ticks(axes)
    to_points = points_per_pixel(axes)
    inside = axes.get_window_extent()
    top = axes.figure.bbox.height
    width = _room(
        start=inside.x0 * to_points - box.left,
        size=inside.width * to_points,
        whole=box.width,
        beyond=box.width,
    )
    height = _room(
        start=(top - inside.y1) * to_points - box.top,
        size=inside.height * to_points,
        whole=box.height,
        beyond=TICK_SIZE,  # the label of the x axis may begin below it
    )
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_visible():
            _move_factor(axis)
    lines = axes.get_xlabel().split("\n")
    most_lines = MOST_LINES - len(lines)
    axes.set_xlabel("\n".join(in_lines(line, width, LABEL_SIZE, most=most_lines) for line in lines))
    axes.set_ylabel(_in_even_lines(axes.get_ylabel(), height))


def _in_even_lines(label: str, width: float) -> str:
    """A label in as few lines as `in_lines` needs, which are about equally long."""
    lines = in_lines(label, width, LABEL_SIZE)
    for share in EVEN:
        narrower = in_lines(label, share * width, LABEL_SIZE)
        if narrower.replace("\n", " ") == label and narrower.count("\n") == lines.count("\n"):
            return narrower
    return lines


def _room(start: float, size: float, whole: float, beyond: float) -> float:
    """The points that are free for a label in the middle of the axes, along one direction.

    Args:
        start: the distance of the axes from the edge of the panel.
        size: the size of the axes.
        whole: the size of the panel.
        beyond: how far the label may reach beyond the axes.
    """
    half = size / 2
    before = start + half
    after = whole - start - half
    return 2 * (min(before, after, half + beyond) - EDGE)


def _move_factor(axis: Axis) -> None:
    """Write the common factor and the offset of the ticks into the label of the axis: the title is in their place."""
    formatter = axis.get_major_formatter()
    if not isinstance(formatter, ScalarFormatter):
        return
    formatter.format_ticks(list(axis.get_majorticklocs()))
    unit = _unit(formatter.get_offset())
    if unit:
        label = axis.get_label_text()
        axis.set_label_text(f"{label}, {unit}" if label else unit)
    axis.offsetText.set_visible(False)


def _unit(offset: str) -> str:
    """The factor and the offset of ticks in words. Matplotlib writes them as "1e11", "1e−7+1.2e0" or "+1.2e0"."""
    factor, start = re.findall(r"^(1e\W?\d+)?(.*)", offset)[0]
    if not factor and not start:
        return ""
    unit = f"in {factor or 1}"
    if start:
        unit += f" from {start.lstrip('+').removesuffix('e0')}"
    return unit.replace(" ", "\N{NO-BREAK SPACE}")
