"""Labels at the ends of lines and at the left of rows: their size and position."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fairbench.report.figures.canvas import BOTTOM, TOP, panels
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.panel import LABEL_HEIGHT, MOST_LABELS, WIDE, Panel, mark, moved
from fairbench.report.figures.style import ArmStyle
from fairbench.report.figures.text import (
    LABEL_SIZE,
    POINTS_PER_INCH,
    RIGHT,
    columns,
    figure_width,
    in_lines,
    panel_width,
    scale,
    text_width,
)

LEGEND_SIZE = 8
LEGEND_COLUMNS = 5
"""The most arms in a row of a legend."""


def width_for(labels: Iterable[str]) -> float:
    """The width in inches that bold labels next to a panel need: that of the longest label, with its margins."""
    widest = max(text_width(label, weight="bold") for label in labels)
    return RIGHT + widest / POINTS_PER_INCH


def line_panels(
    titles: Mapping[str, str], styles: Collection[ArmStyle], labels: Iterable[str] = ()
) -> tuple[Figure, dict[str, Panel]]:
    """A figure with a panel of lines for each arena, and with space for labels at the ends of lines, see `label_ends`.

    If some lines get no label, or if the panels are too narrow for labels, a legend names all lines. `labels` are the
    texts of the labels, if they differ from those of the styles.
    """
    if panel_width() < WIDE:
        labeled = 0
        right = RIGHT
    else:
        labeled = min(len(styles), MOST_LABELS)
        right = width_for(labels or [style.end for style in styles])
    least_height = 2.4 if columns() == 1 else 3.4
    height = max(least_height, TOP + BOTTOM + labeled * LABEL_HEIGHT)
    if labeled == len(styles):
        return panels(titles, height, right=right)
    in_row = _legend_columns(styles)
    rows = -(-len(styles) // in_row)  # rounded up
    figure, by_arena = panels(titles, height, right=right, legend=0.2 + LABEL_HEIGHT * rows)
    _draw_legend(figure, styles, in_row)
    return figure, by_arena


def _legend_columns(styles: Collection[ArmStyle]) -> int:
    """The number of arms that fit into a row of the legend."""
    widest = max(text_width(style.label, LEGEND_SIZE) for style in styles)
    with_sample = widest + 6 * LEGEND_SIZE
    fitting = int(figure_width() * POINTS_PER_INCH / with_sample)
    return max(1, min(LEGEND_COLUMNS, fitting))


def _draw_legend(figure: Figure, styles: Collection[ArmStyle], in_row: int) -> None:
    """Draw a legend of all arms below the panels, with `in_row` arms in a row."""
    figure.legend(
        handles=[_sample(style) for style in styles],
        loc="lower center",
        ncols=in_row,
        fontsize=LEGEND_SIZE * scale(),
        labelspacing=0.3,
        handlelength=3.5,
        columnspacing=1,
    )


def _sample(style: ArmStyle) -> Line2D:
    """The sample in a legend: the line and the marker of an arm."""
    return Line2D(
        xdata=[],
        ydata=[],
        color=style.color,
        linestyle=style.line,
        marker=style.marker,
        markersize=4,
        label=style.label,
    )


def common_label(axis: str, number_of_panels: int) -> str:
    """The label of an axis that all panels of a figure share, in lines that fit below them."""
    in_row = min(number_of_panels, columns())
    return in_lines(axis, POINTS_PER_INCH * in_row * panel_width(), LABEL_SIZE)


def height_of_common(label: str) -> float:
    """The height in inches of a label below all panels."""
    return LABEL_HEIGHT * (label.count("\n") + 2)


def draw_common(figure: Figure, label: str) -> None:
    """Write a label in the middle below all panels."""
    _, inches = figure.get_size_inches()
    figure.text(
        0.5,
        LABEL_HEIGHT * scale() / inches,
        label,
        fontsize=LABEL_SIZE * scale(),
        color=LIGHT["soft"],
        ha="center",
        va="bottom",
    )


def name_rows(panel: Panel, names: Sequence[tuple[str, ArmStyle]], size: float) -> None:
    """Write a name at the left of each row of a panel. The rows 0, 1, ... from the top have the height 1.

    The size of the font is in points. Names as ticks would take several times as long to draw.
    """
    axes = panel.axes
    left = moved(axes.get_yaxis_transform(), axes, points=-3.5)
    for row, (name, style) in enumerate(names):
        text = axes.text(
            0,
            row,
            name,
            transform=left,
            ha="right",
            va="center_baseline",
            color=style.color,
            fontweight="bold",
            fontsize=size * scale(),
        )
        mark(panel, style, text)
    axes.yaxis.set_visible(False)
    axes.set_ylim(len(names) - 0.5, -0.5)
