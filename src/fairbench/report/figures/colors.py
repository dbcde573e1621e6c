"""Every colour of page and figures by its role, for light and for dark.

A figure is drawn with the light ones, each of which has one role alone: so the page can put the role in its place.
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

BACKGROUNDS: Mapping[str, tuple[str, ...]] = {
    "paper": ("ink", "soft", "alarm", "focus", *(role for role in COLORS if role.startswith("arm-"))),
    "raised": ("ink", "soft", "focus"),
    "alarm-paper": ("ink", "alarm"),
    "better-paper": ("ink", "soft"),
    "worse-paper": ("ink", "soft"),
}
"""What stands as text on each background."""


def declarations(dark: bool) -> str:
    """The colours as CSS variables."""
    return " ".join(f"--{role}: {pair[dark]};" for role, pair in COLORS.items())


def contrast(one: str, other: str) -> float:
    """How well two colours are told apart by their light alone: 1 for the same, 21 for black and white.

        (L1 + 0.05) / (L2 + 0.05),    L = 0.2126 R + 0.7152 G + 0.0722 B,    R, G, B linear, L1 >= L2

    Args:
        one: a colour as #rrggbb.
        other: another.

    Source: Web Content Accessibility Guidelines 2.2, definitions of contrast ratio and relative luminance.
    """
    lower, higher = sorted((_luminance(one), _luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


def _luminance(color: str) -> float:
    encoded = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in encoded)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
