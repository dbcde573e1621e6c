"""The size of text in figures, measured with the font, and text made to fit.

All sizes are those of the report's figures, in which normal text has 10 points; other figures have all of them scaled.
"""

from functools import cache

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

REPORT_TEXT = 10
POINTS_PER_INCH = 72
LEFT, RIGHT = 0.85, 0.3
"""Inches at the sides of a panel, without names."""
NARROWEST = 3.0
"""The least inches of a panel that has another one at its side."""


def scale() -> float:
    """The size of the figure that is drawn, in that of the report's."""
    return float(rcParams["font.size"]) / REPORT_TEXT


def figure_width() -> float:
    """The width in inches of the figure that is drawn."""
    return float(rcParams["figure.figsize"][0]) / scale()


def columns() -> int:
    """The most panels in a row."""
    return max(1, min(2, int(figure_width() / NARROWEST)))


def panel_width() -> float:
    """The width in inches of a panel in a full row."""
    return figure_width() / columns()


def points_per_pixel(axes: Axes) -> float:
    """The points of the report's size in a pixel of the figure that is drawn."""
    return POINTS_PER_INCH / axes.figure.dpi / scale()


@cache
def text_width(text: str, size: float = 10, weight: str = "normal") -> float:
    """The width of a text in points."""
    return float(text_to_path.get_text_width_height_descent(text, FontProperties(size=size, weight=weight), False)[0])


def without_middle(text: str, width: float, size: float = 10, weight: str = "normal") -> str:
    """A text that is at most `width` points wide; a wider one loses its middle."""
    kept, shown = len(text), text
    while kept > 2 and text_width(shown, size, weight) > width:
        kept -= 1
        shown = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
    return shown


def in_lines(text: str, width: float, size: float = 10, weight: str = "normal", most: int = 2) -> str:
    """A text in at most some lines, each at most `width` points wide; long words are divided, and the rest left out."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".lstrip()
        if not lines[-1] or text_width(longer, size, weight) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
        while len(lines) < most and text_width(lines[-1], size, weight) > width:
            fits = [n for n in range(1, len(lines[-1])) if text_width(lines[-1][:n], size, weight) <= width]
            lines[-1:] = [lines[-1][: max(fits, default=1)], lines[-1][max(fits, default=1) :]]
    if len(lines) > most:
        last = lines[most - 1]
        while " " in last and text_width(f"{last} …", size, weight) > width:
            last = last.rpartition(" ")[0]
        lines[most - 1 :] = [f"{last} …"]
    return "\n".join(without_middle(line, width, size, weight) for line in lines)
