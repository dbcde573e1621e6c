"""The parts that all figures share: style, panels, and reproducible files.

A figure has a panel for each arena. A drawing function takes `panels`, draws into each with `draw_line` and the like,
or with matplotlib on `panel.axes` and `mark` for the artists of an arm, and passes everything to `finished`:

    figure, by_arena = panels(titles, height=3.4)
    for panel in by_arena.values():
        draw_line(panel, styles["AdamW"], steps, values, [f"AdamW, step {step}: {value}" ...])
    return finished(figure, by_arena, "name", "Title", "A caption.")

The page shows each panel separately, in the page's colors; it can hide marked artists, and shows the texts of points.
"""

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter
from matplotlib.transforms import Bbox

from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.panel import Box, Panel, label_ends
from fairbench.report.figures.text import (
    LABEL_SIZE,
    LEFT,
    POINTS_PER_INCH,
    REPORT_TEXT,
    RIGHT,
    TICK_SIZE,
    TITLE_SIZE,
    columns,
    figure_width,
    fit_ticks,
    in_lines,
    points_per_pixel,
    scale,
)
from fairbench.suites.schema import Suite

STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],  # the first comes with matplotlib; SVGs name the second too
    "text.color": LIGHT["ink"],
    "text.parse_math": False,  # a dollar sign is one
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.titley": 1.0,  # skips the search for ticks above the panel
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
    "legend.frameon": False,
    "svg.hashsalt": "fairbench",
    "svg.fonttype": "none",  # text stays text: screen readers and search see it, and it has the page's font
    "pdf.fonttype": 42,
}

TOP, BOTTOM = 0.45, 0.65
"""Sizes in inches, so that text has the same space in a figure of any number of panels."""

TITLE_LINE, TITLE_LINES = 0.19, 5
"""The height in inches of a line of a title, and the most lines of one."""

WIDEST = 6.5
"""The most inches of a panel that has the whole width of a figure."""

DPI, MOST_PIXELS = 160, 6_000_000
"""Resolution of a PNG. With hundreds of arms it is reduced, since it would take longer than PDF and SVG together."""


EDGE = 2
"""The points between a label and the edge of its panel."""


@dataclass(frozen=True)
class Drawing:
    """A finished figure.

    Attributes:
        name: file name without extension.
        figure: of matplotlib.
        size: with which it was drawn, see `figure_options`.
        parts: its panels.
    """

    name: str
    title: str
    caption: str
    figure: Figure
    size: tuple[float, float]
    parts: list[Panel]

    @cached_property
    def svg(self) -> str:
        """The figure as SVG; a panel is its group `panel0`, `panel1`, ..., an artist of an arm `panel0.arm2.7`."""
        head = f"<title>{escape(self.title)}</title>"
        text = self.save("svg").decode()
        return text.replace(head, f"{head}\n <desc>{escape(self.caption)}</desc>", 1)

    def content(self, form: Literal["svg", "pdf", "png"], panel: Panel | None = None) -> str | bytes:
        """What a file of the figure, or of a panel, has."""
        return self.svg if form == "svg" and panel is None else self.save(form, panel)

    def save(self, form: Literal["svg", "pdf", "png"], panel: Panel | None = None) -> bytes:
        """The figure, or a panel if a row has one, without date and version, which would change in each run."""
        unset: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"Producer": None, "CreationDate": None}}.get(form, {})
        about = {"Software": None} if form == "png" else {"Title": self.title, "Creator": None, **unset}
        file, (width, height) = io.BytesIO(), self.figure.get_size_inches()
        dpi = min(DPI, math.sqrt(MOST_PIXELS / (width * height)))
        fonts = _fonts_without_layout() if form == "pdf" else nullcontext()
        with figure_options(*self.size), fonts, self._only(panel) as place:
            self.figure.savefig(file, format=form, metadata=about, bbox_inches=place, dpi=dpi)
        return file.getvalue()

    @contextmanager
    def _only(self, panel: Panel | None) -> Iterator[Bbox | None]:
        """Move a panel to the place of the last one, just above the legend, and hide the others.

        Yields:
            the place of panel and legend in inches; None for the whole figure.
        """
        if panel is None:
            yield None
            return
        every, chosen = self.figure.axes, self.figure.axes[self.parts.index(panel)]
        usual, (width, height) = chosen.get_position(), self.figure.get_size_inches()
        try:
            for axes in every:
                axes.set_visible(axes is chosen)
            chosen.set_position(every[-1].get_position())
            yield Bbox.from_bounds(0, 0, width, height - self.parts[-1].box.top * scale() / POINTS_PER_INCH)
        finally:
            chosen.set_position(usual)
            for axes in every:
                axes.set_visible(True)


@contextmanager
def _fonts_without_layout() -> Iterator[None]:
    """Leave tables of layout out of embedded fonts: a PDF names its glyphs, and they take most of the time."""
    from fontTools import subset  # here, since only a PDF needs it

    usual = getattr(subset.Options, "_drop_tables_default", [])  # private: without it a PDF only takes longer
    subset.Options._drop_tables_default = [*usual, "GDEF", "GPOS", "GSUB", "MATH"]
    try:
        yield
    finally:
        subset.Options._drop_tables_default = usual


@contextmanager
def figure_options(width: float = 10.0, text: float = REPORT_TEXT) -> Iterator[None]:
    """Use only our style, regardless of a user's matplotlibrc.

    Args:
        width: inches of the figures.
        text: points of normal text; all other sizes follow from it.
    """
    factor = text / REPORT_TEXT
    sizes: dict[Any, Any] = {
        "font.size": text,
        "figure.figsize": (width, width),
        "axes.titlesize": TITLE_SIZE * factor,
        "axes.labelsize": LABEL_SIZE * factor,
        "xtick.labelsize": TICK_SIZE * factor,
        "ytick.labelsize": TICK_SIZE * factor,
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | sizes)
        yield


def panels(
    titles: Mapping[str, str],
    height: float,
    left: float = LEFT,
    right: float = RIGHT,
    bottom: float = BOTTOM,
    legend: float = 0.0,
) -> tuple[Figure, dict[str, Panel]]:
    """A figure with a titled panel for each arena, up to two in a row.

    Args:
        titles: title of each panel by its arena, at least one; a long one has several lines.
        height: inches of a panel with its labels and a title of one line.
        left, right, bottom: margins of each panel in inches.
        legend: inches below all panels.
    """
    in_row = min(len(titles), columns())
    rows = -(-len(titles) // in_row)
    panel_width = figure_width() / (in_row if figure_width() <= WIDEST else columns())
    space = POINTS_PER_INCH * (panel_width - left)
    wrapped = {arena: in_lines(title, space, TITLE_SIZE, "bold", TITLE_LINES) for arena, title in titles.items()}
    inner_height = height - TOP - bottom
    height += TITLE_LINE * max(title.count("\n") for title in wrapped.values())
    size = in_row * panel_width, rows * height + legend
    figure = Figure(figsize=(size[0] * scale(), size[1] * scale()))
    FigureCanvasAgg(figure)
    by_arena = {}
    for i, (arena, title) in enumerate(titles.items()):
        row, column = divmod(i, in_row)
        x, y = column * panel_width + left, (rows - row - 1) * height + bottom + legend
        width = panel_width - left - right
        inner = (x / size[0], y / size[1], width / size[0], inner_height / size[1])
        axes = figure.add_axes(inner, title=wrapped[arena], gid=f"panel{i}")
        outer = column * panel_width, row * height, panel_width, height
        box = Box(*(round(POINTS_PER_INCH * x, 2) for x in outer))
        by_arena[arena] = Panel(i, arena, title, axes, box, inner_height)
    return figure, by_arena


def finished(figure: Figure, by_arena: Mapping[str, Panel], name: str, title: str, caption: str) -> Drawing:
    """The figure after its text is made to fit."""
    for panel in by_arena.values():
        label_ends(panel)
        panel.columns = panel.columns or (panel.axes.get_xlabel().partition("\n")[0], panel.axes.get_ylabel())
        _fit_text(panel)
        panel.finish()
    size = matplotlib.rcParams["figure.figsize"][0], matplotlib.rcParams["font.size"]
    return Drawing(name, title, caption, figure, size, [*by_arena.values()])


def not_drawn(name: str, reason: str) -> Drawing:
    """What stands in the place of a figure that cannot be drawn."""
    figure, said = Figure((matplotlib.rcParams["figure.figsize"][0], 1)), f"This figure cannot be drawn: {reason}."
    FigureCanvasAgg(figure)
    figure.text(0.02, 0.5, said)
    return finished(figure, {}, name, name, said)


def _fit_text(panel: Panel) -> None:
    """Give a panel ticks that do not overlap, their factor in the axis label, and labels that fit."""
    axes, box = panel.axes, panel.box
    fit_ticks(axes)
    to_points = points_per_pixel(axes)
    inside, top = axes.get_window_extent(), axes.figure.bbox.height
    left, above = inside.x0 * to_points - box.left, (top - inside.y1) * to_points - box.top
    wide, high = (
        2 * (min(at + size * to_points / 2, whole - at - size * to_points / 2, size * to_points / 2 + most) - EDGE)
        for at, size, whole, most in (
            (left, inside.width, box.width, box.width),
            (above, inside.height, box.height, TICK_SIZE),  # the label of the x axis may begin below it
        )
    )
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_visible():
            _move_factor(axis)
    lines = axes.get_xlabel().split("\n")
    axes.set_xlabel("\n".join(in_lines(line, wide, LABEL_SIZE, most=3 - len(lines)) for line in lines))
    axes.set_ylabel(in_lines(axes.get_ylabel(), high, LABEL_SIZE))


def _move_factor(axis: Axis) -> None:
    """Write the factor and the offset of the ticks into the label, since above the panel is the title."""
    formatter = axis.get_major_formatter()
    if not isinstance(formatter, ScalarFormatter):
        return
    formatter.format_ticks(list(axis.get_majorticklocs()))
    factor, start = re.findall(r"^(1e\W?\d+)?(.*)", formatter.get_offset())[0]  # "1e11", "1e−7+1.2e0", "+1.2e0"
    above = f" from {start.lstrip('+').removesuffix('e0')}" if start else ""
    unit = f"in {factor or 1}{above}".replace(" ", "\N{NO-BREAK SPACE}") if factor or above else ""
    axis.set_label_text(", ".join(filter(None, (axis.get_label_text(), unit))))
    axis.offsetText.set_visible(False)


def over_seeds(suite: Suite) -> str:
    """What a value of an arm is, in words."""
    return "one final seed" if len(suite.final.seeds) == 1 else "mean over the final seeds"


def titles(suite: Suite, arenas: Iterable[str]) -> dict[str, str]:
    """The title of each arena's panel: its name, which the tables have, and its task."""
    return {x: f"{x}: {suite.facts(x).title}" for x in arenas}
