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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.fitting import fit_text
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
    in_lines,
    scale,
)
from fairbench.suites.schema import Suite

TEXT_STYLE = {
    "font.family": ["DejaVu Sans", "sans-serif"],  # the first comes with matplotlib; SVGs name the second too
    "text.color": LIGHT["ink"],
    "text.parse_math": False,  # a dollar sign is one
    "svg.hashsalt": "fairbench",
    "svg.fonttype": "none",  # text stays text: screen readers and search see it, and it has the page's font
    "pdf.fonttype": 42,
}
AXES_STYLE = {
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
}
OTHER_STYLE = {
    "figure.facecolor": LIGHT["paper"],
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 0.8,
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "legend.frameon": False,
}
STYLE: dict[Any, Any] = {**TEXT_STYLE, **AXES_STYLE, **OTHER_STYLE}

TOP = 0.45
BOTTOM = 0.65
"""Sizes in inches, so that text has the same space in a figure of any number of panels."""

TITLE_LINE = 0.19
"""The height in inches of a line of a title."""
TITLE_LINES = 5
"""The most lines of a title."""

WIDEST = 6.5
"""The most inches of a panel that has the whole width of a figure."""

DPI = 160
"""Resolution of a PNG."""
MOST_PIXELS = 6_000_000
"""With hundreds of arms the resolution is reduced, since a PNG would take longer than PDF and SVG together."""

Form = Literal["svg", "pdf", "png"]


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

    def content(self, form: Form, panel: Panel | None = None) -> str | bytes:
        """What a file of the figure, or of a panel, has."""
        if form == "svg" and panel is None:
            return self.svg
        return self.save(form, panel)

    def save(self, form: Form, panel: Panel | None = None) -> bytes:
        """The figure, or a panel if a row has one, without date and version, which would change in each run."""
        width, height = self.figure.get_size_inches()
        dpi = min(DPI, math.sqrt(MOST_PIXELS / (width * height)))
        fonts = _fonts_without_layout() if form == "pdf" else nullcontext()
        file = io.BytesIO()
        with figure_options(*self.size), fonts, self._only(panel) as box:
            self.figure.savefig(file, format=form, metadata=self._metadata(form), bbox_inches=box, dpi=dpi)
        return file.getvalue()

    def _metadata(self, form: Form) -> dict[str, str | None]:
        """What a file says of itself; None for what matplotlib would add."""
        if form == "png":
            return {"Software": None}
        if form == "svg":
            return {"Title": self.title, "Creator": None, "Date": None}
        return {"Title": self.title, "Creator": None, "Producer": None, "CreationDate": None}

    @contextmanager
    def _only(self, panel: Panel | None) -> Iterator[Bbox | None]:
        """Move a panel to the position of the last one, just above the legend, and hide the others.

        Yields:
            the box of panel and legend in inches; None for the whole figure.
        """
        if panel is None:
            yield None
            return
        every = self.figure.axes
        chosen = every[self.parts.index(panel)]
        usual = chosen.get_position()
        width, height = self.figure.get_size_inches()
        above = self.parts[-1].box.top * scale() / POINTS_PER_INCH
        try:
            for axes in every:
                axes.set_visible(axes is chosen)
            chosen.set_position(every[-1].get_position())
            yield Bbox.from_bounds(0, 0, width, height - above)
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
    more_lines = max(title.count("\n") for title in wrapped.values())
    inner_width = panel_width - left - right
    inner_height = height - TOP - bottom
    height += TITLE_LINE * more_lines
    full_width = in_row * panel_width
    full_height = rows * height + legend
    figure = Figure(figsize=(full_width * scale(), full_height * scale()))
    FigureCanvasAgg(figure)
    by_arena = {}
    for number, (arena, title) in enumerate(titles.items()):
        row, column = divmod(number, in_row)
        x = column * panel_width + left
        y = (rows - row - 1) * height + bottom + legend
        inner = (x / full_width, y / full_height, inner_width / full_width, inner_height / full_height)
        axes = figure.add_axes(inner, title=wrapped[arena], gid=f"panel{number}")
        box = Box(
            left=_in_points(column * panel_width),
            top=_in_points(row * height),
            width=_in_points(panel_width),
            height=_in_points(height),
        )
        by_arena[arena] = Panel(number=number, arena=arena, title=title, axes=axes, box=box, inner_height=inner_height)
    return figure, by_arena


def _in_points(inches: float) -> float:
    return round(POINTS_PER_INCH * inches, 2)


def finished(figure: Figure, by_arena: Mapping[str, Panel], name: str, title: str, caption: str) -> Drawing:
    """The figure after its text is made to fit."""
    for panel in by_arena.values():
        label_ends(panel)
        if not panel.columns:
            panel.columns = _labels_of_axes(panel)
        fit_text(panel)
        panel.finish()
    width, _ = matplotlib.rcParams["figure.figsize"]
    return Drawing(
        name=name,
        title=title,
        caption=caption,
        figure=figure,
        size=(width, matplotlib.rcParams["font.size"]),
        parts=[*by_arena.values()],
    )


def _labels_of_axes(panel: Panel) -> tuple[str, str]:
    """The labels of both axes, without what stands in further lines below the x axis."""
    x, _, _ = panel.axes.get_xlabel().partition("\n")
    return x, panel.axes.get_ylabel()


def not_drawn(name: str, reason: str) -> Drawing:
    """What stands in the place of a figure that cannot be drawn."""
    width, _ = matplotlib.rcParams["figure.figsize"]
    figure = Figure((width, 1))
    FigureCanvasAgg(figure)
    said = f"This figure cannot be drawn: {reason}."
    figure.text(0.02, 0.5, said)
    return finished(figure, {}, name, title=name, caption=said)


def over_seeds(suite: Suite) -> str:
    """What a value of an arm is, in words."""
    if len(suite.final.seeds) == 1:
        return "one final seed"
    return "mean over the final seeds"


def titles(suite: Suite, arenas: Iterable[str]) -> dict[str, str]:
    """The title of each arena's panel: its name, which the tables have, and its task."""
    return {arena: f"{arena}: {suite.facts(arena).title}" for arena in arenas}
