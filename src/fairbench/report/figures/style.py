"""The style of each arm and its name, the same in every figure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

from fairbench.analysis.results import ArmResults, Results
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.glyphs import drawable
from fairbench.report.figures.text import LEFT, POINTS_PER_INCH, RIGHT, panel_width, text_width, without_middle
from fairbench.suites.schema import Suite

ROLES = [role for role in LIGHT if role.startswith("arm-")]
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (9, 2)))
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">")
STYLES = math.lcm(len(ROLES), len(DASHES), len(MARKERS))
"""Colors, dashes and markers each repeat in a cycle: this number of styles differ."""

KNOWN = (
    "PsiLogic",
    "AdamW",
    "Adam",
    "Lion",
    "SGD",
    "Muon",
    "SOAP",
    "ScheduleFree",
    "Adafactor",
    "NAdam",
    "RAdam",
    "LAMB",
    "ADOPT",
    "StableAdamW",
    "AdEMAMix",
    "LARS",
    "SCION",
    "Kron",
    "SPAM",
    "Shampoo",
    "MARS",
    "AdamHD",
    "AdaGC",
    "DAdaptAdam",
    "Prodigy",
    "SophiaH",
    "StableSPAM",
    "SlowNormClip",
)
"""Names that have the first styles, in this order. The styles of other names follow from a hash."""

NAME_WIDTH = 106
"""The most points that a bold name takes."""
LEAST_PANEL = 0.4
"""The least share of a panel's width that remains next to names."""
LEAST_ABSENT = 40
"""The least width in points of the name of an arm without a line. A list of many such names is cut instead."""


@dataclass(frozen=True)
class ArmStyle:
    """The style of an arm in every figure; dash and marker distinguish it where colors repeat.

    Attributes:
        index: 0 for the suite's reference; the baselines follow in the order of the suite.
        label: the name of the arm in a legend and at the left of a row, shortened if it is long.
        end: the name at the end of a line, where there is less space.
        role: the role of the color of its lines, markers and text, see `colors`.
        dash, marker: the dash of its lines and the marker of its values, in matplotlib's notation.
    """

    index: int
    label: str
    end: str
    role: str
    dash: Any
    marker: str

    @property
    def color(self) -> str:
        """The color on a light page and in files."""
        return LIGHT[self.role]

    @property
    def line(self) -> Any:
        """The dash of its line. A wide line has no dash."""
        return "-" if self.wide else self.dash

    @property
    def wide(self) -> bool:
        """Whether its line is wide, so that it stays visible under a line that coincides with it."""
        return self.index == 0


Best = Literal["", "high", "low"]
ArmStyles = Mapping[str, ArmStyle]
"""The style of each optimizer, the reference first."""


def styles_of(suite: Suite) -> ArmStyles:
    """The style of each optimizer of a suite. A style depends on the name, so that it is the same in all studies."""
    names = sorted(suite.optimizers, key=lambda name: name != suite.reference)
    numbers = _style_numbers(names)
    labels = short_names(names)
    ends = short_names(names, _name_width(LEFT + RIGHT))
    styles = {}
    for index, name in enumerate(names):
        role, dash, marker = style_of(numbers[name])
        styles[name] = ArmStyle(index=index, label=labels[name], end=ends[name], role=role, dash=dash, marker=marker)
    return styles


def style_of(number: int) -> tuple[str, Any, str]:
    """The role of the color, the dash and the marker of the style with a number."""
    role = ROLES[number % len(ROLES)]
    dash = DASHES[number % len(DASHES)]
    marker = MARKERS[number % len(MARKERS)]
    return role, dash, marker


def _style_numbers(names: Sequence[str]) -> dict[str, int]:
    """The number of the style of each name. The number of an unknown name follows from a hash of the name.

    If a known name, or an earlier name in the alphabet, has its color, the next number is tried; where all colors are
    used, if one has a similar style. Unknown names never get the first color, which is that of PsiLogic. If there are
    more arms of a color than dashes, styles may be similar, but not the same.
    """
    numbers = {name: KNOWN.index(name) for name in names if name in KNOWN}
    candidates = [number for number in range(len(KNOWN), STYLES) if number % len(ROLES)]
    taken: set[tuple[str, Any]] = set()
    for number in numbers.values():
        taken |= _pairs(number)
    for name in sorted(set(names) - numbers.keys()):
        start = crc32(name.encode()) % len(candidates)
        tried = candidates[start:] + candidates[:start]
        number = _first_free(tried, taken, used=set(numbers.values()))
        numbers[name] = number
        taken |= _pairs(number)
    return numbers


def _first_free(tried: Sequence[int], taken: Set[tuple[str, Any]], used: Set[int]) -> int:
    """The first number in `tried` whose color no other has, or whose style is easy to distinguish from all others.

    Without one, it is the first number that is not used; without that, the first number.
    """
    used_colors = {number % len(ROLES) for number in used}
    for number in tried:
        if number % len(ROLES) not in used_colors:
            return number
    for number in tried:
        if taken.isdisjoint(_pairs(number)):
            return number
    for number in tried:
        if number not in used:
            return number
    return tried[0]


def _pairs(number: int) -> set[tuple[str, Any]]:
    """The pair of color and dash, and the pair of color and marker, of a style.

    Two styles that share no pair are easy to distinguish.
    """
    role, dash, marker = style_of(number)
    return {(role, dash), (role, marker)}


def _name_width(margins: float) -> float:
    """The largest width in points of a name at the side of a panel with these margins in inches."""
    return min(NAME_WIDTH, POINTS_PER_INCH * ((1 - LEAST_PANEL) * panel_width() - margins))


def short_names(names: Sequence[str], width: float | None = None) -> dict[str, str]:
    """Names shortened for figures, all of them different.

    A long name loses its middle. Names that would look alike keep the letters from which on they differ, and get a
    number. A bold name is at most `width` points wide; by default, it fits the name of a row.
    """
    if width is None:
        width = _name_width(2 * RIGHT)
    shown = {name: without_middle(name, width, weight="bold") for name in names}
    counts = Counter(shown.values())
    for text, count in counts.items():
        if count == 1:
            continue
        alike = [name for name in names if shown[name] == text]
        start = max(_shared_letters(alike) - 3, 4)  # a few shared letters before the difference
        for number, name in enumerate(alike, 1):
            shown[name] = _numbered(name, number, start, width)
    return shown


def _shared_letters(names: Sequence[str]) -> int:
    """The number of letters with which all names begin."""
    shared = 0
    for letters in zip(*map(drawable, names), strict=False):
        if len(set(letters)) > 1:
            break
        shared += 1
    return shared


def _numbered(name: str, number: int, start: int, width: float) -> str:
    """A short name: the first letters of a name, its letters from `start` on as far as they fit, and a number."""
    name = drawable(name)
    begin = name[:3]
    space = width - text_width(f"{begin}……{number}", weight="bold")
    middle = without_middle(name[start:], space, weight="bold")
    if text_width(middle, weight="bold") <= space:
        return f"{begin}…{middle}…{number}"
    return f"{begin}…{number}"


def reference_first(results: Results, arena: str) -> list[ArmResults]:
    """The arms of an arena, beginning with the arm of the reference."""
    return sorted(results.of(arena), key=lambda arm: arm.optimizer != results.study.suite.reference)


def over_seeds(suite: Suite) -> str:
    """The meaning of a value of an arm in a caption: a mean over seeds, or the value of one seed."""
    if len(suite.final.seeds) == 1:
        return "one final seed"
    return "mean over the final seeds"


def axis_label(suite: Suite, arena: str) -> tuple[str, Best]:
    """The label of the axis of the primary metric, and which of its values are better."""
    metric = suite.arenas[arena].metric
    label = f"{suite.selection_name} {metric} ({suite.better(arena)})"
    if suite.trains_programs:
        label = f"{metric} ({suite.better(arena)})"  # a program's name of a metric has the split
    best: Best = "high" if suite.direction(arena) == "max" else "low"
    return label, best


def step_label(suite: Suite) -> str:
    """The label of an axis of steps. A training program counts its own steps, which may be epochs."""
    if suite.trains_programs:
        return "step of the program"
    return "training step"


def arm_labels(arms: Sequence[ArmResults], width: float | None = None) -> dict[str, str]:
    """The short name of each arm of an arena, with a mark if some seeds did not finish.

    By default, a name fits at the end of a line.
    """
    if width is None:
        width = _name_width(LEFT + RIGHT)
    marks = {arm.optimizer: seeds_mark(arm.count("finished"), len(arm.final)) for arm in arms}
    return marked_names(marks, width)


def seeds_mark(remaining: int, planned: int) -> str:
    """The mark after the name of an arm some of whose seeds do not count; empty if all planned seeds count."""
    if remaining == planned:
        return ""
    return f" †{remaining}/{planned}"


def marked_names(marks: Mapping[str, str], width: float | None = None) -> dict[str, str]:
    """The short name of each arm with its mark. Both together are at most as wide as a name of `short_names`."""
    if width is None:
        width = _name_width(2 * RIGHT)
    widest_mark = max(text_width(mark, weight="bold") for mark in marks.values())
    names = short_names([*marks], width - widest_mark)
    return {name: names[name] + mark for name, mark in marks.items()}


def no_line(arms: Sequence[ArmResults], drawn: Sequence[ArmResults]) -> str:
    """A further line for the label of an axis, with the names of the arms that are not drawn; empty without any."""
    absent = [arm for arm in arms if arm not in drawn]
    if not absent:
        return ""
    width = max(LEAST_ABSENT, 0.75 * POINTS_PER_INCH * panel_width() / len(absent))
    labels = arm_labels(absent, min(NAME_WIDTH, width))
    return f"\nno line: {', '.join(labels.values())}"
