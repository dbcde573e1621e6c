"""A finished panel without matplotlib: what the page and its script know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.axis import Axis

from fairbench.report.figures.text_size import points_per_pixel

if TYPE_CHECKING:
    from fairbench.report.figures.panel import Box, Panel


class Ends(NamedTuple):
    """The two ends of an axis of a panel, between which a script can find each value.

    Attributes:
        kind: "linear", "log", "symlog", or "rows" for one with names instead of values.
        start, end: positions of its ends in the SVG.
        low, high: their values.
        linear: of a symlog axis, up to where it is linear.
    """

    kind: str
    start: float
    end: float
    low: float
    high: float
    linear: float


@dataclass(frozen=True)
class DrawnPanel:
    """One arena's part of a finished figure.

    Attributes:
        summary: the panel in words, for screen readers.
        box: its place in the SVG.
        x, y: its axes.
        lost: as of `Panel`, with the height in the SVG.
        points, columns, values, seconds, seeds, best: as of `Panel`.
    """

    arena: str
    title: str
    summary: str
    box: Box
    x: Ends
    y: Ends
    points: list[tuple[float, float, int, str]]
    lost: list[tuple[float, float, int, str]]
    columns: tuple[str, ...]
    values: list[tuple[float | str | None, ...]]
    seconds: dict[int, float]
    seeds: dict[int, list[tuple[list[int], list[float]]]]
    best: str

    @property
    def data(self) -> dict[str, Any]:
        """What a script needs to draw the panel again with other axes."""
        axes = {"x": self.x, "y": self.y, "seconds": self.seconds, "seeds": self.seeds, "best": self.best}
        found = {"points": self.points, "lost": self.lost, "columns": self.columns, "values": self.values}
        return {"arena": self.arena, **axes, **found}


def drawn_panel(arena: str, panel: Panel) -> DrawnPanel:
    """A panel after its figure is finished."""
    inside, to_points = panel.axes.get_window_extent(), points_per_pixel(panel.axes)
    height = float(panel.axes.figure.bbox.height)
    x = _ends(panel.axes.xaxis, inside.x0 * to_points, inside.x1 * to_points)
    y = _ends(panel.axes.yaxis, (height - inside.y0) * to_points, (height - inside.y1) * to_points)
    points = [(_rounded(at), _rounded(value), arm, text) for at, value, arm, text in panel.points]
    lost = [(_rounded(at), y.start + (y.end - y.start) * share, arm, text) for at, share, arm, text in panel.lost]
    seeds = {arm: [_line(seed) for seed in seeds] for arm, seeds in panel.seeds.items()}
    about = arena, panel.title, " ".join(panel.summary), panel.box
    values = [tuple(_rounded(x) if isinstance(x, float) else x for x in of_point) for of_point in panel.values]
    found = points, lost, panel.columns, values
    return DrawnPanel(*about, x, y, *found, panel.seconds, seeds, panel.best)


def _ends(axis: Axis, start: float, end: float) -> Ends:
    kind = axis.get_scale() if axis.get_visible() else "rows"
    linear = axis.get_transform().linthresh if kind == "symlog" else 0.0  # type: ignore[attr-defined]
    low, high = map(float, axis.get_view_interval())
    return Ends(kind, round(start, 2), round(end, 2), low, high, linear)


def _line(values: Mapping[int, float]) -> tuple[list[int], list[float]]:
    """Positions and values of a thin line, which nobody reads numbers from."""
    return [*values], [float(f"{value:.4g}") for value in values.values()]


def _rounded(value: float) -> float:
    """A value with more digits than a screen shows, and no more."""
    return float(f"{value:.9g}")
