"""One arena's part of a figure: its values, lines, bands and marks, and what the page and its script know of it."""

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
"""The most lines of a panel that all have a label at their end."""
WIDE = 3.5
"""The least inches of a panel that has labels at the ends of its lines."""
LABEL_GAP = 6
"""The points between the middle of a marker and its label."""
LABEL_X = 1.05
"""Where the marker before a label is, as a share of the panel's width."""


class Box(NamedTuple):
    """A place in a figure, in points from its top left corner."""

    left: float
    top: float
    width: float
    height: float


class Point(NamedTuple):
    """A value with a tooltip.

    Attributes:
        x, y: its position, in data coordinates while it is drawn, then in those of the SVG.
        arm: the arm's index.
        numbers: what a CSV has of it, by the columns of its panel.
        text: a sentence about it.
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
        number: its index in the figure.
        box: its place in the SVG.
        inner_height: inches of its axes.
        artists: the numbers of the artists that `mark` has named.
        points: the values with a tooltip.
        lost: the same for what has no value in y; there y is the height as a share of the axes.
        columns: the names of a point's numbers; without them it has two, with the labels of the axes.
        ends: where lines end, by their labels, see `label_ends`.
        said: the panel in sentences, for screen readers.
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
        """What the script needs to show the values; with rows, a value is compared with no other one at the same x."""
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
        """Give all points their positions in the SVG, after the figure is drawn."""
        values = self._in_svg(self.points, self.axes.transData)
        lost = self._in_svg(self.lost, self.axes.get_xaxis_transform())
        self.points = [*values, *lost]
        self.lost = []

    def _in_svg(self, points: Sequence[Point], transform: Transform) -> Iterator[Point]:
        """Points with positions in the SVG, and with more digits than a screen shows, but no more."""
        if not points:
            return
        to_points = points_per_pixel(self.axes)
        height = float(self.axes.figure.bbox.height)
        bottom = self.axes.bbox.y0
        top = self.axes.bbox.y1
        positions = transform.transform([(point.x, point.y) for point in points]).tolist()
        for (x, y), point in zip(positions, points, strict=True):
            inside = min(max(y, bottom), top)
            yield Point(
                x=round(x * to_points, 2),
                y=round((height - inside) * to_points, 2),
                arm=point.arm,
                numbers=tuple(_with_nine_digits(number) for number in point.numbers),
                text=point.text,
            )


def _with_nine_digits(number: float | str | None) -> float | str | None:
    if isinstance(number, float):
        return float(f"{number:.9g}")
    return number


def log_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic, with plain numbers at its ticks; a range below one decade has ticks too."""
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
    """Mark artists as belonging to an arm."""
    for artist in artists:
        artist.set_gid(f"panel{panel.number}.arm{style.index}.{next(panel.artists)}")


def draw_line(
    panel: Panel, style: ArmStyle, x: Sequence[float], y: Sequence[float], texts: Sequence[str], **line: Any
) -> None:
    """Draw an arm's values with a line, each with a sentence about it, and its label; draw the reference's first."""
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
    """Draw an arm's values, each with its marker and a sentence about it, in one artist since each takes long."""
    marker = {
        "marker": style.marker,
        "markersize": 4,
        "markerfacecolor": style.color,
        "markeredgecolor": style.color,
        "linestyle": "",
    }
    mark(panel, style, *panel.axes.plot(x, y, **{**marker, **line}))
    for at, value, text in zip(x, y, texts, strict=True):
        panel.points.append(Point(at, value, style.index, numbers=(at, value), text=text))


def draw_band(panel: Panel, style: ArmStyle, x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> None:
    """Fill the area between two values of an arm."""
    along = [*x, *reversed(x)]
    outline = [*low, *reversed(high)]
    mark(panel, style, *panel.axes.fill(along, outline, color=style.color, alpha=0.16, linewidth=0))


def label_ends(panel: Panel) -> None:
    """Write labels at the right of the panel, each at the end of its line, moved where they would overlap.

    Of many lines, only the reference's, and those that end highest and lowest, have a label; in a narrow panel none.
    """
    if panel_width() < WIDE:
        return
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
    """The labels that are shown, the lowest first."""
    rising = sorted(ends, key=lambda label: ends[label][1])
    if len(rising) <= MOST_LABELS:
        return rising
    at_each_side = MOST_LABELS // 2
    outer = {*rising[:at_each_side], *rising[-at_each_side:]}
    return [label for label in rising if label in outer or panel.ends[label][0].wide]


def _draw_label(panel: Panel, label: str, end: tuple[float, float], height: float) -> None:
    """Write a label at a height of the panel, with a line that leads to it from the end of its arm's line."""
    axes = panel.axes
    style, _ = panel.ends[label]
    x, y = end
    line = axes.plot(
        [x, LABEL_X],
        [y, height],
        linewidth=0.8,
        linestyle=style.line,
        marker=style.marker,
        markersize=4,
        markevery=[1],
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
    """A transform that ends some points further to the right."""
    inches = points * scale() / POINTS_PER_INCH
    return transform + ScaledTranslation(inches, 0, axes.figure.dpi_scale_trans)


def separate(heights: Sequence[float], gap: float) -> list[float]:
    """Move rising heights as little as needed so that they do not overlap and all lie in 0..1, if they fit."""
    if not heights:
        return []
    stacked = gap * np.arange(len(heights))
    apart = isotonic_regression(np.subtract(heights, stacked)).x  # squared distances are least
    highest = 1 - gap / 2 - stacked[-1]
    inside = np.clip(apart, gap / 2, highest) + stacked
    return [float(height) for height in inside]
