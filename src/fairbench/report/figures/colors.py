"""Every color of the page and of figures by its role, for a light and for a dark page.

Figures are drawn with the light colors. Each light color has exactly one role, so that the page can replace it.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Color(NamedTuple):
    """A color on a light page and on a dark one."""

    light: str
    dark: str


PAGE_COLORS = {
    "paper": Color("#ffffff", "#14171a"),
    "raised": Color("#f3f4f5", "#20262b"),
    "ink": Color("#1c1c1c", "#e8eaec"),
    "soft": Color("#4a4a4a", "#b4bac0"),
    "edge": Color("#8a8f94", "#7d858c"),
    "rule": Color("#e2e4e6", "#2f363c"),
    "grid": Color("#cfd2d5", "#373e45"),
    "alarm": Color("#7a2600", "#ffc3a3"),
    "alarm-paper": Color("#fff1e6", "#3a2012"),
    "focus": Color("#0b5cad", "#8cc4ff"),
    "better-paper": Color("#dcefe2", "#173a24"),
    "worse-paper": Color("#fbe3dc", "#4a221b"),
    "equivalent-paper": Color("#dde8f6", "#1d3350"),
    "margin": Color("#c8d2dc", "#3b4a58"),
}

ARM_COLORS = {
    "arm-orange": Color("#b84300", "#cf7e00"),
    "arm-blue": Color("#0068a6", "#81ccfe"),
    "arm-green": Color("#5c7752", "#c6cc67"),
    "arm-plum": Color("#49013a", "#a387ac"),
    "arm-gray": Color("#4b4b4b", "#c2c5c4"),
    "arm-violet": Color("#0b2897", "#738dfc"),
    "arm-pink": Color("#9e5a77", "#fd5177"),
    "arm-pine": Color("#022a12", "#00a989"),
}
"""Any two differ by a CIEDE2000 of at least 12, with protanopia and deuteranopia too. Those for a dark page are about
equally light, so that none of them outshines the others."""

PHASE_COLORS = {
    "phase-data": Color("#878d95", "#6f777f"),
    "phase-forward": Color("#4f93c9", "#3f86c0"),
    "phase-backward": Color("#1f5587", "#a9d3f5"),
    "phase-step": Color("#d9770f", "#f0a640"),
}

GAIN_COLORS = {
    "better-1": Color("#c9ebe4", "#12403a"),
    "better-2": Color("#8ed3c6", "#17594f"),
    "better-3": Color("#4db3a2", "#1d7164"),
    "worse-1": Color("#fbe0cc", "#4d2a12"),
    "worse-2": Color("#f3b88c", "#713b14"),
    "worse-3": Color("#e0915a", "#954c14"),
}
"""The colors of cells, darker for a larger gain. A gain differs from a loss with protanopia and deuteranopia too."""

COLORS: Mapping[str, Color] = {**PAGE_COLORS, **ARM_COLORS, **PHASE_COLORS, **GAIN_COLORS}

LIGHT: Mapping[str, str] = {role: color.light for role, color in COLORS.items()}


def declarations(dark: bool) -> str:
    """The colors as CSS variables."""
    variables = []
    for role, color in COLORS.items():
        value = color.dark if dark else color.light
        variables.append(f"--{role}: {value};")
    return " ".join(variables)
