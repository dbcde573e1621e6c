"""What all figures share: style, colours, panels, labels, and files that are the same bytes every time."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fairbench.suite import Suite

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 9,
    "axes.labelcolor": "#444444",
    "axes.edgecolor": "#999999",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e8e8e8",
    "grid.linewidth": 0.8,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "svg.hashsalt": "fairbench",
    "savefig.dpi": 160,
}

REFERENCE_COLOR = "#d55e00"
BASELINE_COLORS = ("#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Okabe and Ito's colours, which the colour-blind can tell apart."""

LONGEST = 24
"""Characters of a name in a figure; of a longer one the middle is left out."""

PANEL_WIDTH = 5.6
LEFT, TOP, BOTTOM = 0.95, 0.45, 0.65
LEGEND_ROW = 0.32
"""Sizes in inches, so that text has the same room in a figure of any number of panels."""

LEGEND_COLUMNS = 4
"""Entries of a legend above one panel, before it takes another row."""

LABEL_GAP = 0.075
"""Least distance of two labels, as a share of the panel's height."""


@dataclass(frozen=True)
class Drawing:
    """A finished figure.

    Attributes:
        name: file name without ending.
        caption: what it shows.
        png: the picture as PNG.
        svg: the picture as SVG.
    """

    name: str
    caption: str
    png: bytes
    svg: str


@contextmanager
def style() -> Iterator[None]:
    """Our style alone, whatever a user's matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def palette(suite: Suite) -> dict[str, str]:
    """The colour of each optimizer, the same in all figures."""
    baselines = [name for name in suite.optimizers if name != suite.reference]
    cycle = {name: BASELINE_COLORS[i % len(BASELINE_COLORS)] for i, name in enumerate(baselines)}
    return {suite.reference: REFERENCE_COLOR, **cycle}


def panels(
    arenas: Mapping[str, str], height: float, left: float = LEFT, right: float = 0.3, legend: int = 0
) -> tuple[Figure, dict[str, Axes]]:
    """A figure with a titled panel for each arena, up to two in a row.

    Args:
        arenas: title of each arena by its name, at least one.
        height: inches of a panel with its title and labels.
        left: inches to leave free at the left of each panel.
        right: inches to leave free at its right.
        legend: entries of the legend above for which to leave room.
    """
    columns = min(len(arenas), 2)
    legend_rows = -(-legend // (LEGEND_COLUMNS * columns))
    rows = -(-len(arenas) // columns)
    size = columns * PANEL_WIDTH, rows * height + legend_rows * LEGEND_ROW
    figure = Figure(figsize=size)
    FigureCanvasAgg(figure)
    found = {}
    for i, (arena, title) in enumerate(arenas.items()):
        row, column = divmod(i, columns)
        x, y = column * PANEL_WIDTH + left, (rows - row - 1) * height + BOTTOM
        width = PANEL_WIDTH - left - right
        box = (x / size[0], y / size[1], width / size[0], (height - TOP - BOTTOM) / size[1])
        found[arena] = figure.add_axes(box)
        found[arena].set_title(title)
    return figure, found


def short(name: str) -> str:
    """A name as figures have room for it, in which dollars are dollars and no mathematics."""
    shown = name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[1 - LONGEST // 2 :]}"
    return shown.replace("$", r"\$")


def room_for(labels: Iterable[str]) -> float:
    """Inches that the longest of some bold labels takes beside a panel."""
    return 0.35 + 0.1 * max(map(len, labels))


def add_legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """A legend above all panels, in as many rows as `panels` has left room for."""
    per_row = LEGEND_COLUMNS * round(figure.get_figwidth() / PANEL_WIDTH)
    figure.legend(handles, labels, loc="upper center", ncols=min(len(handles), per_row), columnspacing=1.4)


def plot_line(axes: Axes, x: Sequence[float], y: Sequence[float], color: str, wide: bool, marker: str = "") -> None:
    """A line; a wide one belongs first, so that another that coincides with it leaves both visible."""
    width, alpha = (4.5, 0.75) if wide else (1.6, 1.0)
    axes.plot(x, y, color=color, linewidth=width, alpha=alpha, marker=marker, markersize=4)


def label_ends(axes: Axes, ends: Mapping[str, tuple[float, float]], colors: Sequence[str]) -> None:
    """Write labels at the right of the panel, each beside the end of its line, moved apart where they would overlap.

    Args:
        axes: the panel, with all its lines.
        ends: label and last point of each line.
        colors: colour of each line.
    """
    axes.autoscale_view()
    to_panel = axes.transData + axes.transAxes.inverted()
    order = sorted((float(to_panel.transform(end)[1]), i) for i, end in enumerate(ends.values()))
    heights = spread([height for height, _ in order], LABEL_GAP)
    labels = list(ends.items())
    for (_, i), height in zip(order, heights, strict=True):
        axes.annotate(
            labels[i][0],
            xy=labels[i][1],
            xytext=(1.06, height),
            textcoords="axes fraction",
            color=colors[i],
            fontweight="bold",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colors[i], "linewidth": 0.8, "shrinkB": 2, "relpos": (0, 0.5)},
        )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move rising heights as little as needed so that neighbours are a gap apart and all lie in 0..1, if they fit."""
    clusters: list[tuple[float, int]] = []  # centre and size; those that touch merge around their common centre
    for height in heights:
        clusters.append(_inside(height, 1, gap))
        while len(clusters) > 1 and _touch(clusters[-2], clusters[-1], gap):
            (low, n), (high, m) = clusters[-2:]
            clusters[-2:] = [_inside((low * n + high * m) / (n + m), n + m, gap)]
    return [centre + (i - (size - 1) / 2) * gap for centre, size in clusters for i in range(size)]


def _inside(centre: float, size: int, gap: float) -> tuple[float, int]:
    half = size * gap / 2
    return min(max(centre, half), 1 - half), size


def _touch(below: tuple[float, int], above: tuple[float, int], gap: float) -> bool:
    return above[0] - below[0] < gap * (below[1] + above[1]) / 2


def finished(figure: Figure, name: str, caption: str) -> Drawing:
    """Both formats, without the date and version that would make the bytes of each run differ."""
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    figure.savefig(svg, format="svg", metadata={"Date": None})
    return Drawing(name, caption, png.getvalue(), svg.getvalue())
