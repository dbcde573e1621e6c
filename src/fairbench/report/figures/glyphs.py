"""Characters that the usual font of figures does not have: other fonts that have them, or else their code points."""

from functools import cache

from matplotlib.font_manager import FontProperties, findfont, get_font

from fairbench.common.terminal import say

USUAL = "DejaVu Sans"
"""The font of figures, which comes with matplotlib."""
OTHERS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Arial Unicode MS",
)
"""Fonts of Linux, macOS and Windows that have many characters, in the order in which they are tried."""


@cache
def characters_of(family: str) -> frozenset[int]:
    """The code points of the characters that a font has; empty if this machine does not have the font."""
    try:
        path = findfont(FontProperties(family=family), fallback_to_default=False)
    except ValueError:
        return frozenset()
    return frozenset(get_font(path).get_charmap())


def _missing(text: str, family: str) -> str:
    """The characters of a text that a font does not have, each once. Spaces and control characters need no font."""
    known = characters_of(family)
    return "".join(dict.fromkeys(c for c in text if c.isprintable() and ord(c) not in known))


@cache
def families(text: str) -> tuple[str, ...]:
    """The fonts in which a text is written: the usual one, then each other one that has characters it lacks."""
    missing = _missing(text, USUAL)
    found = [USUAL]
    for family in OTHERS:
        still_missing = _missing(missing, family)
        if still_missing != missing:
            found.append(family)
        missing = still_missing
        if not missing:
            break
    return (*found, "sans-serif")  # an SVG names it for a viewer that has none of the others


@cache
def drawable(text: str) -> str:
    """A text in which each character that no font has is replaced by its code point, such as U+4E2D."""
    missing = _missing(text, USUAL)
    for family in OTHERS:
        if not missing:
            return text
        missing = _missing(missing, family)
    for character in missing:
        text = text.replace(character, f"U+{ord(character):04X}")
    return text


@cache
def tell_what_is_replaced(names: tuple[str, ...]) -> None:
    """Print one line on the names that figures show with code points, if there are any; once for the same names."""
    replaced = [name for name in names if drawable(name) != name]
    if replaced:
        say(
            f"figures: no font has all characters of {', '.join(replaced)}; code points such as U+4E2D stand for them. "
            "The page and the tables have the names. A font such as Noto Sans CJK gives them to figures too.",
            is_error=True,
        )
