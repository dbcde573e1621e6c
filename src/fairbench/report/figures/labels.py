"""Labels at the ends of lines and at the left of rows: their size and position."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fairbench.report.figures.canvas import BOTTOM, TOP, panels
from fairbench.report.figures.panel import LABEL_HEIGHT, MOST_LABELS, WIDE, Panel, mark, moved
from fairbench.report.figures.style import ArmStyle
from fairbench.report.figures.text import POINTS_PER_INCH, RIGHT, columns, figure_width, panel_width, scale, text_width

LEGEND_SIZE = 8


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
