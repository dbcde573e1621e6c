"""A finished figure, and its files, which are the same in every run."""

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.glyphs import USUAL
from fairbench.report.figures.panel import Panel
from fairbench.report.figures.text import LABEL_SIZE, POINTS_PER_INCH, REPORT_TEXT, TICK_SIZE, TITLE_SIZE, scale

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
