"""One arena's part of a figure while it is drawn: its values, lines, bands and marks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from fairbench.report.figures.style import ArmStyle
from fairbench.report.figures.text_size import scale


class Box(NamedTuple):
    """A place in a figure, in points from its top left corner."""

    left: float
    top: float
    width: float
    height: float


@dataclass
class Panel:
    """One arena's part of a figure, while it is drawn.

    Attributes:
        number: its index in the figure.
        box: its place in the SVG.
        inner_height: inches of its axes.
        numbers: those of the artists that `mark` has named.
        points: the values with a tooltip: position in data coordinates, the arm's index, a sentence.
        lost: what has no value in y: position in x, height as a share of the axes, the arm's index, a sentence.
        columns: the names of a point's values; without them it has two, with the labels of the axes.
        values: of each point, by columns; without them its position.
        summary: the panel in words, for screen readers.
        seconds: of an arm's unit of x, by its index; empty where x is no steps or none were timed.
        seeds: the values of each seed by x, by the index of the arm; for the page alone.
        best: whether higher ("high") or lower ("low") values of y are better, if either.
    """

    number: int
    title: str
    axes: Axes
    box: Box
    inner_height: float
    numbers: Iterator[int] = field(default_factory=count)
    points: list[tuple[float, float, int, str]] = field(default_factory=list)
    lost: list[tuple[float, float, int, str]] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    values: list[tuple[float | str | None, ...]] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)
    seconds: dict[int, float] = field(default_factory=dict)
    seeds: dict[int, list[Mapping[int, float]]] = field(default_factory=dict)
    best: Literal["", "high", "low"] = ""


def log_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic, with plain numbers at its ticks, some of them even within a decade."""
    axes.set_xscale("log")
    wide = max(values) >= 10 * min(values)
    parts = (1, 2, 5) if max(values) < 100 * min(values) else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=parts) if wide else MaxNLocator(5))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def mark(panel: Panel, style: ArmStyle, *artists: Artist, kind: Literal["", "end", "edge"] = "") -> None:
    """Mark artists as belonging to an arm.

    Args:
        kind: "end" for the label at the end of a line, "edge" for what has values in x alone.
    """
    for artist in artists:
        artist.set_gid(f"panel{panel.number}.arm{style.index}.{next(panel.numbers)}{kind and '.'}{kind}")


def draw_line(
    panel: Panel, style: ArmStyle, x: Sequence[float], y: Sequence[float], texts: Sequence[str], **line: Any
) -> None:
    """Draw an arm's values with a line, each with a sentence about it; draw the reference's first."""
    width, alpha = (4.5 * scale(), 0.75) if style.wide else (1.6, 1.0)
    line = {"color": to_rgba(style.color, alpha), "linewidth": width, "linestyle": style.line, **line}
    draw_values(panel, style, x, y, texts, **line)


def draw_values(
    panel: Panel, style: ArmStyle, x: Sequence[float], y: Sequence[float], texts: Sequence[str], **line: Any
) -> None:
    """Draw an arm's values, each with its marker and a sentence about it, in one artist since each takes long.

    Args:
        line: matplotlib's style of a line that joins the values; none by default.
    """
    line = {"markersize": 4, "markerfacecolor": style.color, "markeredgecolor": style.color, "linestyle": "", **line}
    mark(panel, style, *panel.axes.plot(x, y, marker=style.marker, **line))
    panel.points.extend(zip(x, y, [style.index] * len(texts), texts, strict=True))


def draw_band(panel: Panel, style: ArmStyle, x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> None:
    """Fill the area between two values of an arm."""
    outline = [*x, *reversed(x)], [*low, *reversed(high)]
    mark(panel, style, *panel.axes.fill(*outline, color=style.color, alpha=0.16, linewidth=0))
