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
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from fairbench.arenas.program import TASK as PROGRAM
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.fitting import fit_text
from fairbench.report.figures.glyphs import USUAL, families
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
    "font.family": [USUAL, "sans-serif"],  # SVGs name the second too
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
    "axes.labelpad": 2.0,
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
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.8,
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "legend.frameon": False,
}
STYLE: dict[Any, Any] = {**TEXT_STYLE, **AXES_STYLE, **OTHER_STYLE}

TOP = 0.45
BOTTOM = 0.72
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
"""The most pixels of a PNG.

With hundreds of arms its resolution is reduced, since it would take longer than PDF and SVG together.
"""

Form = Literal["svg", "pdf", "png"]


@dataclass(frozen=True)
class Drawing:
    """A finished figure.

    Attributes:
        name: file name without extension.
        figure: the figure of matplotlib.
        size: the width and the text size with which it was drawn, see `figure_options`.
        parts: the panels of the figure.
        axis: the label of an axis that all panels share, if they do not have it themselves.
    """

    name: str
    title: str
    caption: str
    figure: Figure
    size: tuple[float, float]
    parts: list[Panel]
    axis: str = ""

    @cached_property
    def svg(self) -> str:
        """The figure as SVG.

        Panels are groups `panel0`, `panel1`, ..., and artists of arms are groups as `panel0.arm2.7`.
        """
        head = f"<title>{escape(self.title)}</title>"
        text = self.save("svg").decode()
        return text.replace(head, f"{head}\n <desc>{escape(self.caption)}</desc>", 1)

    def content(self, form: Form, panel: Panel | None = None) -> str | bytes:
        """The content of a file of the figure, or of one panel."""
        if form == "svg" and panel is None:
            return self.svg
        return self.save(form, panel)

    def save(self, form: Form, panel: Panel | None = None) -> bytes:
        """The figure as a file, or only a panel. Date and version are left out, since they would change in each run.

        A single panel can be saved if each row has one panel.
        """
        width, height = self.figure.get_size_inches()
        dpi = min(DPI, math.sqrt(MOST_PIXELS / (width * height)))
        fonts = _fonts_without_layout() if form == "pdf" else nullcontext()
        file = io.BytesIO()
        with figure_options(*self.size), fonts, self._only(panel) as box:
            self.figure.savefig(file, format=form, metadata=self._metadata(form), bbox_inches=box, dpi=dpi)
        return file.getvalue()

    def _metadata(self, form: Form) -> dict[str, str | None]:
        """The metadata of a file. None removes an entry that matplotlib would add."""
        if form == "png":
            return {"Software": None}
        if form == "svg":
            return {"Title": self.title, "Creator": None, "Date": None}
        return {"Title": self.title, "Creator": None, "Producer": None, "CreationDate": None}

    @contextmanager
    def _only(self, panel: Panel | None) -> Iterator[Bbox | None]:
        """Move a panel to the position of the last panel, just above the legend, and hide the others in a `with` block.

        Yields:
            the box of panel and legend in inches; None for the whole figure.
        """
        if panel is None:
            yield None
            return
        every_axes = self.figure.axes
        chosen = every_axes[self.parts.index(panel)]
        position = chosen.get_position()
        width, height = self.figure.get_size_inches()
        rows_above = self.parts[-1].box.top * scale() / POINTS_PER_INCH
        try:
            for axes in every_axes:
                axes.set_visible(axes is chosen)
            chosen.set_position(every_axes[-1].get_position())
            yield Bbox.from_bounds(0, 0, width, height - rows_above)
        finally:
            chosen.set_position(position)
            for axes in every_axes:
                axes.set_visible(True)


@contextmanager
def _fonts_without_layout() -> Iterator[None]:
    """Leave the layout tables out of embedded fonts in a `with` block: a PDF does not need them, and they are slow."""
    from fontTools import subset  # here, since only a PDF needs it

    # the attribute is private: without it a PDF only takes longer
    dropped = getattr(subset.Options, "_drop_tables_default", [])
    subset.Options._drop_tables_default = [*dropped, "GDEF", "GPOS", "GSUB", "MATH"]
    try:
        yield
    finally:
        subset.Options._drop_tables_default = dropped


@contextmanager
def figure_options(width: float = 10.0, text: float = REPORT_TEXT) -> Iterator[None]:
    """Draw in our style in a `with` block, whatever the matplotlibrc of the user says.

    Args:
        width: the width of the figures in inches.
        text: the size of normal text in points, from which all other sizes follow.
    """
    factor = text / REPORT_TEXT
    sizes: dict[Any, Any] = {
        "font.size": text,
        "figure.figsize": (width, width),  # only the width is read, by `figure_width`
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
        titles: the title of each panel by its arena, at least one. A long title has several lines.
        height: the height in inches of a panel with its labels and a title of one line.
        left, right, bottom: the margins of each panel in inches.
        legend: the height in inches of the legend below all panels.
    """
    in_row = min(len(titles), columns())
    rows = math.ceil(len(titles) / in_row)
    panel_width = figure_width() / columns()
    if figure_width() <= WIDEST:  # a panel alone in its row may have the whole width
        panel_width = figure_width() / in_row
    title_width = POINTS_PER_INCH * (panel_width - left)
    wrapped = {arena: in_lines(title, title_width, TITLE_SIZE, "bold", TITLE_LINES) for arena, title in titles.items()}
    more_lines = max(title.count("\n") for title in wrapped.values())
    panel_height = height + TITLE_LINE * more_lines
    inner_width = panel_width - left - right
    inner_height = height - TOP - bottom
    full_width = in_row * panel_width
    full_height = rows * panel_height + legend
    figure = Figure(figsize=(full_width * scale(), full_height * scale()))
    FigureCanvasAgg(figure)
    by_arena = {}
    for number, (arena, title) in enumerate(titles.items()):
        row, column = divmod(number, in_row)
        x = column * panel_width + left
        y = (rows - row - 1) * panel_height + bottom + legend
        inner = (x / full_width, y / full_height, inner_width / full_width, inner_height / full_height)
        axes = figure.add_axes(inner, title=wrapped[arena], gid=f"panel{number}")
        box = Box(
            left=_in_points(column * panel_width),
            top=_in_points(row * panel_height),
            width=_in_points(panel_width),
            height=_in_points(panel_height),
        )
        by_arena[arena] = Panel(number=number, arena=arena, title=title, axes=axes, box=box, inner_height=inner_height)
    return figure, by_arena


def _in_points(inches: float) -> float:
    """A length in points, rounded for the page."""
    return round(POINTS_PER_INCH * inches, 2)


def finished(
    figure: Figure, by_arena: Mapping[str, Panel], name: str, title: str, caption: str, axis: str = ""
) -> Drawing:
    """Make the text of a figure fit, and return the finished figure. `axis` is the label that all panels share."""
    for panel in by_arena.values():
        label_ends(panel)
        if not panel.columns:  # the drawing function has not named them
            panel.columns = _labels_of_axes(panel)
        fit_text(panel)
        panel.finish()
    for text in figure.findobj(Text):
        text.set_fontfamily(families(text.get_text()))
    width, _ = matplotlib.rcParams["figure.figsize"]
    return Drawing(
        name=name,
        title=title,
        caption=caption,
        figure=figure,
        size=(width, matplotlib.rcParams["font.size"]),
        parts=[*by_arena.values()],
        axis=axis,
    )


def _labels_of_axes(panel: Panel) -> tuple[str, str]:
    """The labels of both axes. Of the label of the x axis, only the first line counts."""
    x, _, _ = panel.axes.get_xlabel().partition("\n")
    return x, panel.axes.get_ylabel()


def not_drawn(name: str, reason: str) -> Drawing:
    """A figure with a sentence that the figure with this name cannot be drawn, and why."""
    width, _ = matplotlib.rcParams["figure.figsize"]
    figure = Figure((width, 1))
    FigureCanvasAgg(figure)
    message = f"This figure cannot be drawn: {reason}."
    figure.text(0.02, 0.5, message)
    return finished(figure, {}, name, title=name, caption=message)


def titles(suite: Suite, arenas: Iterable[str]) -> dict[str, str]:
    """The title of the panel of each arena: the name of the arena, as in tables, and its task.

    A training program has its name alone: its task is a whole command.
    """
    found = {}
    for arena in arenas:
        found[arena] = arena
        if suite.task(arena) != PROGRAM:
            found[arena] += f": {suite.facts(arena).title}"
    return found
