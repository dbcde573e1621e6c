"""The panels that all figures share.

A figure has a panel for each arena. A drawing function takes `panels`, draws into each with `draw_line` and the like,
or with matplotlib on `panel.axes` and `mark` for the artists of an arm, and passes everything to `finished`:

    figure, by_arena = panels(titles, height=3.4)
    for panel in by_arena.values():
        draw_line(panel, styles["AdamW"], steps, values, [f"AdamW, step {step}: {value}" ...])
    return finished(figure, by_arena, "name", "Title", "A caption.")

The page shows each panel separately, in the page's colors; it can hide marked artists, and shows the texts of points.
"""

import math
from collections.abc import Iterable, Mapping

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from fairbench.arenas.program import TASK as PROGRAM
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.fitting import fit_text
from fairbench.report.figures.glyphs import families
from fairbench.report.figures.panel import Box, Panel, label_ends
from fairbench.report.figures.text import (
    LEFT,
    POINTS_PER_INCH,
    RIGHT,
    TITLE_SIZE,
    columns,
    figure_width,
    in_lines,
    scale,
)
from fairbench.suites.schema import Suite

TOP = 0.45
BOTTOM = 0.72
"""Sizes in inches, so that text has the same space in a figure of any number of panels."""

TITLE_LINE = 0.19
"""The height in inches of a line of a title."""
TITLE_LINES = 5
"""The most lines of a title."""

WIDEST = 6.5
"""The most inches of a panel that has the whole width of a figure."""


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
