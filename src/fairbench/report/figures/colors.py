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
    "arm-0": ("#b84300", "#ff9a5c"),
    "arm-1": ("#0068a6", "#6cb8ee"),
    "arm-2": ("#007a57", "#4fd0a5"),
    "arm-3": ("#a53a7d", "#f19acb"),
    "arm-4": ("#6a5300", "#e3c04b"),
    "arm-5": ("#5b4fc0", "#b3a8ff"),
    "arm-6": ("#3f4a54", "#c3ccd4"),
    "phase-data": ("#d3d6d9", "#4a5157"),
    "phase-forward": ("#9dbcd8", "#5f86a8"),
    "phase-backward": ("#4a7fb5", "#8fb9e0"),
    "phase-step": ("#f0a04b", "#f3b267"),
}
"""Light and dark; arm-0 is the suite's reference."""

LIGHT: Mapping[str, str] = {role: light for role, (light, _) in COLORS.items()}


def declarations(dark: bool) -> str:
    """The colors as CSS variables."""
    return " ".join(f"--{role}: {pair[dark]};" for role, pair in COLORS.items())
