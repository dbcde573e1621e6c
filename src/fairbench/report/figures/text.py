"""The text of figures: its size as the font gives it, and ticks and labels that neither overlap nor are cut.

All sizes are those in figures of the report, whose normal text has 10 points. In other figures all sizes are scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import LogLocator, MaxNLocator

from fairbench.report.figures.glyphs import drawable, families

REPORT_TEXT = 10
POINTS_PER_INCH = 72
LEFT = 0.92
RIGHT = 0.3
"""The margins in inches at the sides of a panel, without names."""
NARROWEST = 3.0
"""The least width in inches of a panel that has another panel at its side."""
TICK_SIZE = 10
LABEL_SIZE = 10
TITLE_SIZE = 11
MOST_TICKS = 8


def scale() -> float:
    """The size of the figure that is drawn, as a multiple of the size in the report."""
    return float(rcParams["font.size"]) / REPORT_TEXT


def figure_width() -> float:
    """The width in inches of the figure that is drawn, before it is scaled."""
    return float(rcParams["figure.figsize"][0]) / scale()


def columns() -> int:
    """The most panels in a row: one or two."""
    fitting = int(figure_width() / NARROWEST)
    return max(1, min(2, fitting))


def panel_width() -> float:
    """The width in inches of a panel in a full row."""
    return figure_width() / columns()


def points_per_pixel(axes: Axes) -> float:
    """The number of points, in the size of the report, in a pixel of the figure that is drawn."""
    return POINTS_PER_INCH / axes.figure.dpi / scale()


@cache
def text_width(text: str, size: float = 10, weight: str = "normal") -> float:
    """The width of a text in points."""
    font = FontProperties(family=families(text), size=size, weight=weight)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, False)
    return float(width)


def without_middle(text: str, width: float, size: float = 10, weight: str = "normal") -> str:
    """A text that is at most `width` points wide. A wider text loses its middle."""
    text = drawable(text)
    kept = len(text)
    shown = text
    while kept > 2 and text_width(shown, size, weight) > width:
        kept -= 1
        begin = text[: (kept + 1) // 2]
        end = text[len(text) - kept // 2 :]
        shown = f"{begin}…{end}"
    return shown


def in_lines(text: str, width: float, size: float = 10, weight: str = "normal", most: int = 2) -> str:
    """Break a text into at most `most` lines, each at most `width` points wide.

    Long words are divided. What does not fit into the lines is left out.
    """
    lines = [""]
    for word in drawable(text).split(" "):
        longer = f"{lines[-1]} {word}".lstrip()
        if not lines[-1] or text_width(longer, size, weight) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
        while len(lines) < most and text_width(lines[-1], size, weight) > width:
            letters = _letters_that_fit(lines[-1], width, size, weight)
            long_word = lines[-1]
            lines[-1] = long_word[:letters]
            lines.append(long_word[letters:])
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = _with_ellipsis(lines[-1], width, size, weight)
    return "\n".join(without_middle(line, width, size, weight) for line in lines)


def _letters_that_fit(word: str, width: float, size: float, weight: str) -> int:
    """The number of letters of a long word that fit into a line: at least one, but not all."""
    fitting = [n for n in range(1, len(word)) if text_width(word[:n], size, weight) <= width]
    return max(fitting, default=1)


def _with_ellipsis(line: str, width: float, size: float, weight: str) -> str:
    """A line that ends with an ellipsis. As many words as needed are removed for it."""
    while " " in line and text_width(f"{line} …", size, weight) > width:
        line = line.rpartition(" ")[0]
    return f"{line} …"


def fit_ticks(axes: Axes) -> None:
    """Give the x axis as many ticks as possible whose labels do not overlap. A fixed choice of ticks stays."""
    locator = axes.xaxis.get_major_locator()
    for most in range(MOST_TICKS, 0, -1):
        if isinstance(locator, MaxNLocator):
            locator.set_params(nbins=most, steps=(1, 2, 2.5, 5, 10))
        elif isinstance(locator, LogLocator):
            subs = (1, 2, 5) if most == MOST_TICKS else (1,)
            locator.set_params(subs=subs, numticks=most + 1)
        else:
            return  # the ticks are a fixed choice
        low, high = sorted(axes.get_xlim())
        shown = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]
        if _are_apart(axes, shown):
            return


def thin_ticks(axes: Axes, ticks: Sequence[float]) -> list[float]:
    """The ticks of a symmetric x axis: 0, and each of some rising ticks on both sides if the labels do not overlap."""
    kept = [0.0]
    for tick in ticks:
        if _are_apart(axes, [*kept, -tick, tick]):
            kept += [-tick, tick]
    return kept


def inner_width(axes: Axes) -> float:
    """The width of the axes in points of the report."""
    return float(axes.get_window_extent().width) * points_per_pixel(axes)


def _are_apart(axes: Axes, ticks: Sequence[float]) -> bool:
    """Whether there is space between the labels of neighboring ticks of the x axis."""
    texts = axes.xaxis.get_major_formatter().format_ticks([*ticks])
    to_points = points_per_pixel(axes)
    ends = []
    for tick, text in zip(ticks, texts, strict=True):
        x, _ = axes.transData.transform((tick, 0))
        middle = float(x) * to_points
        half = text_width(text, TICK_SIZE) / 2 + 2
        ends.append((middle - half, middle + half))
    return all(left[1] <= right[0] for left, right in pairwise(sorted(ends)))
