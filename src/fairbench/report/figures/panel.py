"""A panel, the part of a figure for one arena: how it is drawn, and the data that the page has of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation, Transform
from scipy.optimize import isotonic_regression

from fairbench.report.figures.style import ArmStyle, Best
from fairbench.report.figures.text import POINTS_PER_INCH, panel_width, points_per_pixel, scale

LABEL_HEIGHT = 0.18
"""The height of a label in inches."""
MOST_LABELS = 9
"""The most lines of a panel for which all lines have a label at their end."""
WIDE = 3.5
"""The least inches of a panel that has labels at the ends of its lines."""
LABEL_GAP = 6
"""The points between the middle of a marker and its label."""
NEAR = 0.15
"""The largest distance between a line's end and the edge of its panel with a thin line to the label, as a share of the
width. A longer one would cross the panel; the marker before the label is then enough."""
LABEL_X = 1.05
"""The position of the marker before a label, as a share of the panel's width."""


class Box(NamedTuple):
    """A place in a figure, in points from its top left corner."""

    left: float
    top: float
    width: float
    height: float


class Point(NamedTuple):
    """A value with a tooltip.

    Attributes:
        x, y: the position, in data coordinates while the figure is drawn, and after that in those of the SVG.
        arm: the index of the arm.
        numbers: the cells of the value in a CSV, by the columns of the panel.
        text: a sentence about the value.
    """

    x: float
    y: float
    arm: int
    numbers: tuple[float | str | None, ...]
    text: str


@dataclass(eq=False)
class Panel:
    """One arena's part of a figure.

    Attributes:
        number: the index of the panel in the figure.
        box: the place of the panel in the SVG.
        inner_height: the height of its axes in inches.
        artists: the numbers of the artists that `mark` has named.
        points: the values with a tooltip.
        lost: points of diverged trials, which have no value; their y is the height as a share of the axes.
        columns: the names of the numbers of a point; empty for two numbers that are named as the axes.
        ends: where lines end, by their labels, see `label_ends`.
        said: the content of the panel in sentences, for screen readers.
        best: whether higher ("high") or lower ("low") values of y are better, if either.
    """

    number: int
    arena: str
    title: str
    axes: Axes
    box: Box
    inner_height: float
    artists: Iterator[int] = field(default_factory=count)
    points: list[Point] = field(default_factory=list)
    lost: list[Point] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    ends: dict[str, tuple[ArmStyle, tuple[float, float]]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    best: Best = ""

    @property
    def data(self) -> dict[str, Any]:
        """The data with which the script of the page shows values.

        With "rows", each value has a row of its own, and is not compared with other values at the same x.
        """
        points = []
        for point in self.points:
            points.append((point.x, point.y, point.arm, point.text, *point.numbers))
        return {
            "arena": self.arena,
            "rows": not self.axes.yaxis.get_visible(),
            "best": self.best,
            "columns": self.columns,
            "points": points,
        }

    def finish(self) -> None:
        """Convert the positions of all points to those in the SVG, after the figure is drawn."""
        values = self._in_svg(self.points, self.axes.transData)
        lost = self._in_svg(self.lost, self.axes.get_xaxis_transform())
        self.points = [*values, *lost]
        self.lost = []

    def _in_svg(self, points: Sequence[Point], transform: Transform) -> Iterator[Point]:
        """Points with their positions in the SVG. Numbers are rounded, to digits that no screen shows."""
        if not points:
            return
        to_points = points_per_pixel(self.axes)
        height = float(self.axes.figure.bbox.height)
        bottom = self.axes.bbox.y0
        top = self.axes.bbox.y1
        positions = transform.transform([(point.x, point.y) for point in points]).tolist()
        for (x, y), point in zip(positions, points, strict=True):
            inside = min(max(y, bottom), top)  # a value beyond the edge has its tooltip at the edge
            yield Point(
                x=round(x * to_points, 2),
                y=round((height - inside) * to_points, 2),
                arm=point.arm,
                numbers=tuple(_with_nine_digits(number) for number in point.numbers),
                text=point.text,
            )


def _with_nine_digits(number: float | str | None) -> float | str | None:
    """A number rounded to nine digits; other cells as they are."""
    if isinstance(number, float):
        return float(f"{number:.9g}")
    return number


def log_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic, with plain numbers at its ticks. Values within one decade have ticks too."""
    axes.set_xscale("log")
    least = min(values)
    largest = max(values)
    if largest < 10 * least:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    elif largest < 100 * least:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    else:
        axes.xaxis.set_major_locator(LogLocator(subs=(1,)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())


def mark(panel: Panel, style: ArmStyle, *artists: Artist) -> None:
    """Name artists as those of an arm, so that the page can hide them with the arm."""
    for artist in artists:
        artist.set_gid(f"panel{panel.number}.arm{style.index}.{next(panel.artists)}")


def draw_line(
    panel: Panel, style: ArmStyle, x: Sequence[float], y: Sequence[float], texts: Sequence[str], **line: Any
) -> None:
    """Draw the values of an arm with a line through them, and note where its label belongs.

    Each value has a sentence in `texts`. The line of the reference must be drawn first, below the others.
    """
    if style.wide:
        width = 4.5 * scale()
        color = to_rgba(style.color, 0.75)
    else:
        width = 1.6
        color = to_rgba(style.color, 1.0)
    line = {"color": color, "linewidth": width, "linestyle": style.line, **line}
    draw_values(panel, style, x, y, texts, **line)
    panel.ends[style.end] = style, (x[-1], y[-1])


def draw_values(
    panel: Panel, style: ArmStyle, x: Sequence[float], y: Sequence[float], texts: Sequence[str], **line: Any
) -> None:
    """Draw the values of an arm as markers. Each value has a sentence in `texts`.

    All markers are one artist, since each artist takes long.
    """
    marker = {
        "marker": style.marker,
        "markersize": 4,
        "markerfacecolor": style.color,
        "markeredgecolor": style.color,
        "linestyle": "",
    }
    mark(panel, style, *panel.axes.plot(x, y, **{**marker, **line}))
    for x_value, y_value, text in zip(x, y, texts, strict=True):
        point = Point(x_value, y_value, style.index, numbers=(x_value, y_value), text=text)
        panel.points.append(point)


def draw_band(panel: Panel, style: ArmStyle, x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> None:
    """Fill the area between the low and the high values of an arm."""
    # the outline goes along the low values, and back along the high ones
    outline_x = [*x, *reversed(x)]
    outline_y = [*low, *reversed(high)]
    mark(panel, style, *panel.axes.fill(outline_x, outline_y, color=style.color, alpha=0.16, linewidth=0))


def label_ends(panel: Panel) -> None:
    """Write a label at the end of each line, at the right of the panel. Labels that would overlap are moved.

    If there are many lines, only that of the reference and those that end highest and lowest have a label.
    """
    if panel_width() < WIDE:
        return  # a legend names the lines
    axes = panel.axes
    axes.autoscale_view()
    to_panel = axes.transData + axes.transAxes.inverted()
    ends = {}
    for label, (_, end) in panel.ends.items():
        x, y = to_panel.transform(end)
        ends[label] = (float(x), float(y))
    labels = _labels_with_space(panel, ends)
    heights = separate([ends[label][1] for label in labels], LABEL_HEIGHT / panel.inner_height)
    for label, height in zip(labels, heights, strict=True):
        _draw_label(panel, label, ends[label], height)


def _labels_with_space(panel: Panel, ends: Mapping[str, tuple[float, float]]) -> list[str]:
    """The labels that are shown, the lowest line first. `ends` has the position of the end of each line."""
    rising = sorted(ends, key=lambda label: ends[label][1])
    if len(rising) <= MOST_LABELS:
        return rising
    at_each_side = MOST_LABELS // 2
    outer = {*rising[:at_each_side], *rising[-at_each_side:]}
    return [label for label in rising if label in outer or panel.ends[label][0].wide]


def _draw_label(panel: Panel, label: str, end: tuple[float, float], height: float) -> None:
    """Write a label at a height of the panel, and draw a thin line to it from an end that is near."""
    axes = panel.axes
    style, _ = panel.ends[label]
    x, y = end
    xs = [LABEL_X]
    ys = [height]
    if x >= 1 - NEAR and 0 <= y <= 1:
        xs = [x, LABEL_X]
        ys = [y, height]
    line = axes.plot(
        xs,
        ys,
        linewidth=0.8,
        linestyle=style.line,
        marker=style.marker,
        markersize=4,
        markevery=[len(xs) - 1],
        transform=axes.transAxes,
        clip_on=False,
        color=style.color,
    )
    name = axes.text(
        LABEL_X,
        height,
        label,
        fontweight="bold",
        va="center",
        transform=moved(axes.transAxes, axes, LABEL_GAP),
        clip_on=False,
        color=style.color,
    )
    mark(panel, style, *line, name)


def moved(transform: Transform, axes: Axes, points: float) -> Transform:
    """A transform whose result lies some points further to the right."""
    inches = points * scale() / POINTS_PER_INCH
    return transform + ScaledTranslation(inches, 0, axes.figure.dpi_scale_trans)


def separate(heights: Sequence[float], gap: float) -> list[float]:
    """Move rising heights as little as possible, so that neighbors are `gap` apart and all lie in 0..1, if they fit."""
    if not heights:
        return []
    stacked = gap * np.arange(len(heights))
    # without the gaps, the heights must only rise: this is the solution with the least squared distances
    apart = isotonic_regression(np.subtract(heights, stacked)).x
    highest = 1 - gap / 2 - stacked[-1]
    inside = np.clip(apart, gap / 2, highest) + stacked
    return [float(height) for height in inside]
