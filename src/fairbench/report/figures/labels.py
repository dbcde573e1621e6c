"""Labels at the ends of lines and at the left of rows: their size and position."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation, Transform
from scipy.optimize import isotonic_regression

from fairbench.report.figures.canvas import BOTTOM, TOP, panels
from fairbench.report.figures.panel import Panel, mark
from fairbench.report.figures.style import ArmStyle
from fairbench.report.figures.text import POINTS_PER_INCH, RIGHT, columns, figure_width, panel_width, scale, text_width

LABEL_HEIGHT = 0.18
"""The height of a label in inches."""
MOST_LABELS = 9
"""The most lines of a panel that all have a label at their end."""
WIDE = 3.5
"""The least inches of a panel that has labels at the ends of its lines."""
LEGEND_SIZE = 8
LABEL_GAP = 6
"""The points between the middle of a marker and its label."""


def width_for(labels: Iterable[str]) -> float:
    """The width in inches of the longest of some bold labels next to a panel, with its margins."""
    return RIGHT + max(text_width(label, weight="bold") for label in labels) / POINTS_PER_INCH


def line_panels(
    titles: Mapping[str, str], styles: Collection[ArmStyle], labels: Iterable[str] = ()
) -> tuple[Figure, dict[str, Panel]]:
    """A figure with a panel of lines for each arena, with space for labels at their ends, see `label_ends`.

    Four labels have space in a column of a paper. A legend names all lines if a panel has labels for fewer of them, and
    where panels are too narrow for labels.
    """
    narrow = panel_width() < WIDE
    labeled = 0 if narrow else min(len(styles), MOST_LABELS)
    height = max(2.4 if columns() == 1 else 3.4, TOP + BOTTOM + labeled * LABEL_HEIGHT)
    right = RIGHT if narrow else width_for(labels or [style.end for style in styles])
    if labeled == len(styles):
        return panels(titles, height, right=right)
    widest = max(text_width(style.label, LEGEND_SIZE) for style in styles)
    in_row = max(1, min(5, int(figure_width() * POINTS_PER_INCH / (widest + 6 * LEGEND_SIZE))))
    figure, by_arena = panels(titles, height, right=right, legend=0.2 + LABEL_HEIGHT * -(-len(styles) // in_row))
    samples = [
        Line2D([], [], color=x.color, linestyle=x.line, marker=x.marker, markersize=4, label=x.label) for x in styles
    ]
    place: dict[str, Any] = {"loc": "lower center", "ncols": in_row, "fontsize": LEGEND_SIZE * scale()}
    figure.legend(handles=samples, labelspacing=0.3, handlelength=3.5, columnspacing=1, **place)
    return figure, by_arena


def label_ends(panel: Panel, ends: Mapping[str, tuple[ArmStyle, tuple[float, float]]]) -> None:
    """Write labels at the right of the panel, each at the end of its line, moved where they would overlap.

    Of many lines, only the reference's, and those that end highest and lowest, have a label; in a narrow panel none. A
    label comes with the style of its arm and the last point of its line.
    """
    if panel_width() < WIDE:
        return
    axes = panel.axes
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


def name_rows(panel: Panel, names: Sequence[tuple[str, ArmStyle]], size: float) -> None:
    """Write a name at the left of each row 0, 1, ... of height 1, from the top; ticks would take several times as long.

    The size of the font is in points.
    """
    axes = panel.axes
    left = moved(axes.get_yaxis_transform(), axes, -3.5)
    how: dict[str, Any] = {"transform": left, "ha": "right", "va": "center_baseline", "fontsize": size * scale()}
    for row, (name, style) in enumerate(names):
        mark(panel, style, axes.text(0, row, name, color=style.color, fontweight="bold", **how))
    axes.yaxis.set_visible(False)
    axes.set_ylim(len(names) - 0.5, -0.5)


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
