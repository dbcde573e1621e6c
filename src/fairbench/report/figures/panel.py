"""One arena's part of a figure: its values, lines, bands and marks, and what the page and its script know of it."""

from collections.abc import Iterator, Sequence
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
        points = [(x, y, arm, text, *numbers) for x, y, arm, numbers, text in self.points]
        rows = not self.axes.yaxis.get_visible()
        return {"arena": self.arena, "rows": rows, "best": self.best, "columns": self.columns, "points": points}

    def finish(self) -> None:
        """Give all points their positions in the SVG, after the figure is drawn."""
        lost = self._in_svg(self.lost, self.axes.get_xaxis_transform())
        self.points, self.lost = [*self._in_svg(self.points, self.axes.transData), *lost], []

    def _in_svg(self, points: Sequence[Point], transform: Transform) -> Iterator[Point]:
        """Points with positions in the SVG, and with more digits than a screen shows, but no more."""
        to_points, height = points_per_pixel(self.axes), float(self.axes.figure.bbox.height)
        bottom, top = self.axes.bbox.y0, self.axes.bbox.y1
        places = transform.transform([(point.x, point.y) for point in points]).tolist() if points else []
        for (x, y), point in zip(places, points, strict=True):
            place = round(x * to_points, 2), round((height - min(max(y, bottom), top)) * to_points, 2)
            numbers = tuple(float(f"{n:.9g}") if isinstance(n, float) else n for n in point.numbers)
            yield Point(*place, point.arm, numbers, point.text)


def log_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic, with plain numbers at its ticks; a range below one decade has ticks too."""
    axes.set_xscale("log")
    wide = max(values) >= 10 * min(values)
    parts = (1, 2, 5) if max(values) < 100 * min(values) else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=parts) if wide else MaxNLocator(5))
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
    width, alpha = (4.5 * scale(), 0.75) if style.wide else (1.6, 1.0)
    line = {"color": to_rgba(style.color, alpha), "linewidth": width, "linestyle": style.line, **line}
    draw_values(panel, style, x, y, texts, **line)
    panel.ends[style.end] = style, (x[-1], y[-1])


def draw_values(
    panel: Panel, style: ArmStyle, x: Sequence[float], y: Sequence[float], texts: Sequence[str], **line: Any
) -> None:
    """Draw an arm's values, each with its marker and a sentence about it, in one artist since each takes long."""
    line = {"markersize": 4, "markerfacecolor": style.color, "markeredgecolor": style.color, "linestyle": "", **line}
    mark(panel, style, *panel.axes.plot(x, y, marker=style.marker, **line))
    panel.points += [Point(a, b, style.index, (a, b), text) for a, b, text in zip(x, y, texts, strict=True)]


def draw_band(panel: Panel, style: ArmStyle, x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> None:
    """Fill the area between two values of an arm."""
    outline = [*x, *reversed(x)], [*low, *reversed(high)]
    mark(panel, style, *panel.axes.fill(*outline, color=style.color, alpha=0.16, linewidth=0))


def label_ends(panel: Panel) -> None:
    """Write labels at the right of the panel, each at the end of its line, moved where they would overlap.

    Of many lines, only the reference's, and those that end highest and lowest, have a label; in a narrow panel none.
    """
    axes, ends = panel.axes, panel.ends
    if panel_width() < WIDE:
        return
    axes.autoscale_view()
    to_panel = axes.transData + axes.transAxes.inverted()
    places = {text: to_panel.transform(end) for text, (_, end) in ends.items()}
    order = sorted(places, key=lambda text: float(places[text][1]))
    if len(order) > MOST_LABELS:
        outer = {*order[: MOST_LABELS // 2], *order[-(MOST_LABELS // 2) :]}
        order = [text for text in order if text in outer or ends[text][0].wide]
    heights = separate([float(places[text][1]) for text in order], LABEL_HEIGHT / panel.inner_height)
    for text, height in zip(order, heights, strict=True):
        style, (x, y) = ends[text][0], places[text]
        of_panel: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False, "color": style.color}
        sample: dict[str, Any] = {"linestyle": style.line, "marker": style.marker, "markersize": 4, "markevery": [1]}
        line = axes.plot([x, 1.05], [y, height], linewidth=0.8, **sample, **of_panel)
        after = {**of_panel, "transform": moved(axes.transAxes, axes, LABEL_GAP)}
        name = axes.text(1.05, height, text, fontweight="bold", va="center", **after)
        mark(panel, style, *line, name)


def moved(transform: Transform, axes: Axes, points: float) -> Transform:
    """A transform that ends some points further to the right."""
    return transform + ScaledTranslation(points * scale() / POINTS_PER_INCH, 0, axes.figure.dpi_scale_trans)


def separate(heights: Sequence[float], gap: float) -> list[float]:
    """Move rising heights as little as needed so that they do not overlap and all lie in 0..1, if they fit."""
    below = gap * np.arange(len(heights))
    if not heights:
        return []
    apart = isotonic_regression(np.subtract(heights, below)).x  # squared distances are least
    return [*map(float, np.clip(apart, gap / 2, 1 - gap / 2 - below[-1]) + below)]
