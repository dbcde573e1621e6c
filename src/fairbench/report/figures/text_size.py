"""The size of text in figures, measured with the font, and text made to fit."""

from functools import cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path


@cache
def text_width(text: str, size: float = 10, weight: str = "normal") -> float:
    """The width of a text in points."""
    shown = text.replace(r"\$", "$")
    return float(text_to_path.get_text_width_height_descent(shown, FontProperties(size=size, weight=weight), False)[0])


def without_middle(text: str, width: float, size: float = 10, weight: str = "normal") -> str:
    """A text that is at most `width` points wide; a wider one loses its middle."""
    kept, shown = len(text), text
    while kept > 2 and text_width(shown, size, weight) > width:
        kept -= 1
        shown = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
    return shown


def in_lines(text: str, width: float, size: float = 10, weight: str = "normal", most: int = 2) -> str:
    """A text in at most some lines, each at most `width` points wide; what does not fit is left out."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".lstrip()
        if not lines[-1] or text_width(longer, size, weight) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) > most:
        lines[most - 1 :] = [f"{lines[most - 1]} …"]
    return "\n".join(without_middle(line, width, size, weight) for line in lines)
