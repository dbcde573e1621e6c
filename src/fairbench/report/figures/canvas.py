"""The parts that all figures share: style, panels, lines, and reproducible files.

A figure has a panel for each arena. A drawing function takes `panels`, draws into each with `draw_line` and the like,
or with matplotlib on `panel.axes` and `mark` for the artists of an arm, and passes everything to `finished`:

    figure, by_arena = panels(titles, height=3.4)
    for panel in by_arena.values():
        draw_line(panel, looks["AdamW"], steps, values, [f"AdamW, step {step}: {value}" ...])
    return finished(figure, by_arena, "name", "Title", "A caption.")

The page shows each panel separately, in the page's colors; it can hide marked artists, and shows the texts of points.
"""

import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from fairbench.report.figures.axis_text import LABEL_SIZE, POINTS_PER_INCH, TICK_SIZE, TITLE_SIZE, fit_text
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.looks import Look
from fairbench.suites.schema import Suite

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 10,
    "text.color": LIGHT["ink"],
    "axes.titlesize": TITLE_SIZE,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.titley": 1.0,  # skips the search for ticks above the panel
    "axes.labelsize": LABEL_SIZE,
    "axes.labelcolor": LIGHT["soft"],
    "axes.formatter.limits": (-4, 5),  # longer numbers have no space
    "axes.edgecolor": LIGHT["edge"],
    "axes.facecolor": LIGHT["paper"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "figure.facecolor": LIGHT["paper"],
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 0.8,
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "xtick.labelsize": TICK_SIZE,
    "ytick.labelsize": TICK_SIZE,
    "legend.frameon": False,
    "svg.hashsalt": "fairbench",
    "svg.fonttype": "none",  # text stays text: screen readers and search see it, and it has the page's font
    "pdf.fonttype": 42,
}

PANEL_WIDTH = 5.0
LEFT, TOP, BOTTOM = 0.95, 0.45, 0.65
"""Sizes in inches, so that text has the same space in a figure of any number of panels."""

DPI, MOST_PIXELS = 160, 6_000_000
"""Resolution of a PNG. With hundreds of arms it is reduced, since it would take longer than PDF and SVG together."""


class Box(NamedTuple):
    """A place in the SVG, in points from its top left corner."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Panel:
    """One arena's part of a figure, while it is drawn.

    Attributes:
        number: its index in the figure.
        box: its place in the SVG.
        inner_height: inches of its axes.
        marked: the artists of arms, see `mark`.
        points: the values with a tooltip: position in data coordinates, the arm's index, a sentence.
        summary: the panel in words, for screen readers.
    """

    number: int
    title: str
    axes: Axes
    box: Box
    inner_height: float
    marked: list[Artist] = field(default_factory=list)
    points: list[tuple[float, float, int, str]] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DrawnPanel:
    """One arena's part of a finished figure.

    Attributes:
        summary: the panel in words, for screen readers.
        box: its place in the SVG.
        points: the values with a tooltip: position in the SVG, the arm's index, a sentence.
    """

    arena: str
    title: str
    summary: str
    box: Box
    points: list[tuple[float, float, int, str]]


@dataclass(frozen=True)
class Drawing:
    """A finished figure.

    Attributes:
        name: file name without extension.
        svg: the figure as SVG; a panel is its group `panel0`, `panel1`, ..., an artist of an arm `panel0.arm2.7`.
        parts: its panels.
    """

    name: str
    title: str
    caption: str
    png: bytes
    svg: str
    pdf: bytes
    parts: list[DrawnPanel]


@contextmanager
def style() -> Iterator[None]:
    """Use only our style, regardless of a user's matplotlibrc."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def panels(
    titles: Mapping[str, str],
    height: float,
    left: float = LEFT,
    right: float = 0.3,
    bottom: float = BOTTOM,
    legend: float = 0.0,
) -> tuple[Figure, dict[str, Panel]]:
    """A figure with a titled panel for each arena, up to two in a row.

    Args:
        titles: title of each panel by its arena, at least one.
        height: inches of a panel with its title and labels.
        left, right, bottom: margins of each panel in inches.
        legend: inches below all panels.
    """
    columns = min(len(titles), 2)
    rows = -(-len(titles) // columns)
    size = columns * PANEL_WIDTH, rows * height + legend
    figure = Figure(figsize=size)
    FigureCanvasAgg(figure)
    by_arena, inner_height = {}, height - TOP - bottom
    for i, (arena, title) in enumerate(titles.items()):
        row, column = divmod(i, columns)
        x, y = column * PANEL_WIDTH + left, (rows - row - 1) * height + bottom + legend
        width = PANEL_WIDTH - left - right
        inner = (x / size[0], y / size[1], width / size[0], inner_height / size[1])
        axes = figure.add_axes(inner, title=title, gid=f"panel{i}")
        outer = Box(column * PANEL_WIDTH, row * height, PANEL_WIDTH, height)
        by_arena[arena] = Panel(i, title, axes, Box(*(round(POINTS_PER_INCH * x, 2) for x in outer)), inner_height)
    return figure, by_arena


def log_axis(axes: Axes, which: Literal["x", "y"], values: Sequence[float]) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks, some of them even within a decade."""
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    wide = max(values) >= 10 * min(values)
    parts = (1, 2, 5) if max(values) < 100 * min(values) else (1,)
    axis.set_major_locator(LogLocator(subs=parts) if wide else MaxNLocator(5))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def mark(panel: Panel, look: Look, *artists: Artist) -> None:
    """Mark artists as belonging to an arm."""
    for artist in artists:
        artist.set_gid(f"panel{panel.number}.arm{look.index}.{len(panel.marked)}")
        panel.marked.append(artist)


def draw_line(panel: Panel, look: Look, x: Sequence[float], y: Sequence[float], texts: Sequence[str]) -> None:
    """Draw an arm's values with a line, each with a sentence about it; draw the reference's first."""
    width, alpha = (4.5, 0.75) if look.wide else (1.6, 1.0)
    draw_values(panel, look, x, y, texts, color=to_rgba(look.color, alpha), linewidth=width, linestyle=look.line)


def draw_values(
    panel: Panel, look: Look, x: Sequence[float], y: Sequence[float], texts: Sequence[str], **line: Any
) -> None:
    """Draw an arm's values, each with its marker and a sentence about it, in one artist since each takes long.

    Args:
        line: matplotlib's style of a line that joins the values; none by default.
    """
    line = {"markersize": 4, "markerfacecolor": look.color, "markeredgecolor": look.color, "linestyle": "", **line}
    mark(panel, look, *panel.axes.plot(x, y, marker=look.marker, **line))
    panel.points.extend(zip(x, y, [look.index] * len(texts), texts, strict=True))


def draw_band(panel: Panel, look: Look, x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> None:
    """Fill the area between two values of an arm."""
    outline = [*x, *reversed(x)], [*low, *reversed(high)]
    mark(panel, look, *panel.axes.fill(*outline, color=look.color, alpha=0.16, linewidth=0))


def finished(figure: Figure, by_arena: Mapping[str, Panel], name: str, title: str, caption: str) -> Drawing:
    """The figure in all formats, without date and version, which would change the bytes of each run."""
    for panel in by_arena.values():
        fit_text(panel)
    unset = {"Creator": None, "Date": None}
    png, svg, pdf = io.BytesIO(), io.StringIO(), io.BytesIO()
    dpi = min(DPI, math.sqrt(MOST_PIXELS / math.prod(figure.get_size_inches())))
    figure.savefig(png, format="png", metadata={"Software": None}, dpi=dpi)
    figure.savefig(svg, format="svg", metadata={"Title": title, **unset})
    figure.savefig(
        pdf, format="pdf", metadata={"Title": title, "Creator": None, "Producer": None, "CreationDate": None}
    )
    head = f"<title>{escape(title)}</title>"
    described = svg.getvalue().replace(head, f"{head}\n <desc>{escape(caption)}</desc>", 1)
    parts = [_part(arena, panel, figure) for arena, panel in by_arena.items()]
    return Drawing(name, title, caption, png.getvalue(), described, pdf.getvalue(), parts)


def _part(arena: str, panel: Panel, figure: Figure) -> DrawnPanel:
    """A panel without matplotlib: positions from the figure's top left corner, in points."""
    to_points = POINTS_PER_INCH / figure.dpi
    height = float(figure.get_figheight()) * POINTS_PER_INCH
    ends: Any = panel.axes.transData.transform([point[:2] for point in panel.points]) if panel.points else []
    positions = [(round(float(x) * to_points, 1), round(height - float(y) * to_points, 1)) for x, y in ends]
    points = [(*position, *point[2:]) for position, point in zip(positions, panel.points, strict=True)]
    return DrawnPanel(arena, panel.title, " ".join(panel.summary), panel.box, points)


def titles(suite: Suite, arenas: Iterable[str]) -> dict[str, str]:
    """The title of each arena's panel: its name, which the tables have, and its task."""
    return {x: f"{x}: {suite.facts(x).title}" for x in arenas}
