"""Every color of page and figures by its role, for light and for dark.

Figures are drawn with the light colors. Each has exactly one role, so that the page can replace it by the role.
"""

from collections.abc import Mapping

COLORS: Mapping[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#14171a"),
    "raised": ("#f3f4f5", "#20262b"),
    "ink": ("#1c1c1c", "#e8eaec"),
    "soft": ("#4a4a4a", "#b4bac0"),
    "edge": ("#8a8f94", "#7d858c"),
    "rule": ("#e2e4e6", "#2f363c"),
    "alarm": ("#7a2600", "#ffc3a3"),
    "alarm-paper": ("#fff1e6", "#3a2012"),
    "focus": ("#0b5cad", "#8cc4ff"),
    "better-paper": ("#dcefe2", "#173a24"),
    "worse-paper": ("#fbe3dc", "#4a221b"),
    "arm-orange": ("#b84300", "#dd8310"),
    "arm-blue": ("#0068a6", "#46bcf3"),
    "arm-green": ("#5c7752", "#c1fe48"),
    "arm-plum": ("#49013a", "#a892aa"),
    "arm-gray": ("#4b4b4b", "#ebebeb"),
    "arm-violet": ("#0b2897", "#766efa"),
    "arm-pink": ("#9e5a77", "#ed3674"),
    "arm-pine": ("#022a12", "#31daa4"),
    "phase-data": ("#878d95", "#6f777f"),
    "phase-forward": ("#4f93c9", "#3f86c0"),
    "phase-backward": ("#1f5587", "#a9d3f5"),
    "phase-step": ("#d9770f", "#f0a640"),
}
"""Light and dark. Any two colors of arms differ by a CIEDE2000 of at least 12, with protanopia and deuteranopia too."""

LIGHT: Mapping[str, str] = {role: light for role, (light, _) in COLORS.items()}


def declarations(dark: bool) -> str:
    """The colors as CSS variables."""
    return " ".join(f"--{role}: {pair[dark]};" for role, pair in COLORS.items())
