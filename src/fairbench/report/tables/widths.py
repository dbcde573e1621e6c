"""How wide text in LaTeX is; lengths in points, of Computer Modern at 8 points, which is wider than Times."""

import re
from collections.abc import Sequence
from functools import lru_cache
from math import sqrt

from fairbench.report.tables.tex import ESCAPED, POWER, escape

COLUMN, TEXT = 220.0, 345.0
"""A column of a two-column article on A4, and the text width of an article, the narrowest of the usual layouts."""
GAP = 6.0
"""Between two columns."""
LONGEST = 62.0
"""A longer word may be divided."""
WIDTHS = {
    **dict.fromkeys("!',.:;[]il|·’", 2.5),
    **dict.fromkeys(" \N{NO-BREAK SPACE}-fj", 2.9),
    **dict.fromkeys("()I_rstcez", 3.8),
    **dict.fromkeys("0123456789", 4.26),
    **dict.fromkeys("EFPLZCDHNTUVXYAwBRαβμπσφχψωΓΞΛµ", 6.5),
    **dict.fromkeys("&+<=>@GKOQ−×±≤≥≈ΘΥΨΠΣΦΩ#%mΔ", 7.1),
    **dict.fromkeys("MW→∞", 9.0),
    "…": 11.4,
}
OTHER, UNKNOWN = 4.9, 27.0
"""The width of other characters, and of those that are printed as their code point."""
BREAK = re.compile(r" +|(?<=[_/:.=])(?=[^\W\d_])|(?<==)(?=\d)")
"""Where a line may end: at a space, and within names before a letter."""
WORD = re.compile(r"[^\W\d_]{2}")
"""What a word has and a number has not."""


@lru_cache(maxsize=100_000)
def width(text: str) -> float:
    """An upper bound of the width of a text."""
    printed = POWER.sub(r"\1 × 10\2\3", text)
    return sum(WIDTHS.get(c, OTHER if " " <= c <= "~" or c in ESCAPED else UNKNOWN) for c in printed)


def pieces(text: str) -> list[str]:
    """The parts of a text between which a line may end, each with the space that follows it."""
    ends = [found.end() for found in BREAK.finditer(text)]
    parts = (text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True))
    return [short for part in parts for short in _divided(part)]


def _divided(word: str) -> list[str]:
    """A word in parts that are not too long; a number is one part."""
    if width(word.rstrip()) <= LONGEST or not WORD.search(word):
        return [word]
    found = [""]
    for c in word:
        if width((found[-1] + c).rstrip()) > LONGEST:
            found.append("")
        found[-1] += c
    return found


def breakable(text: str) -> str:
    """Text as LaTeX source in which a line may end between any two pieces, at a space rather than within a name."""
    *others, last = pieces(text)
    return "".join(escape(x) + ("" if x.endswith(" ") else r"\penalty50 ") for x in others) + escape(last)


def lines(text: str, available: float) -> list[str]:
    """A text in lines of a width; a line is longer where a piece is."""
    found = [""]
    for piece in pieces(text):
        if found[-1] and width((found[-1] + piece).rstrip()) > available:
            found.append("")
        found[-1] += piece
    return [line.rstrip() for line in found]


def least(text: str) -> float:
    """The width below which a piece of a text does not fit."""
    return max(width(piece.rstrip()) for piece in pieces(text))


def shared(needed: Sequence[tuple[float, float]], available: float) -> list[float]:
    """A width for each column between its least and its natural one, such that they fill what is available.

    Between these bounds widths are proportional to the square root of the natural ones: columns of long text get more,
    columns of names are not squeezed.
    """

    def at(level: float) -> list[float]:
        return [min(natural, max(narrow, level * sqrt(natural))) for narrow, natural in needed]

    low, high = 0.0, available
    for _ in range(50):
        level = (low + high) / 2
        low, high = (level, high) if sum(at(level)) <= available else (low, level)
    return at(low)
