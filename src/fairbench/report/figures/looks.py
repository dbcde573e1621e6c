"""The look of each arm and its name, the same in every figure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, takewhile
from typing import Any

from fairbench.analysis.results import ArmResults, Results
from fairbench.report.figures.colors import LIGHT
from fairbench.suites.schema import Suite

ARM_COLORS = [color for role, color in LIGHT.items() if role.startswith("arm-")]
REFERENCE_COLOR = ARM_COLORS[0]
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (9, 2)))
MARKERS = ("s", "^", "D", "v", "X", "P", "<", ">")
"""Colors, dashes and markers each repeat in a cycle: only the 121st baseline looks like the first."""

LONGEST_NAME = 24
"""The most characters of a name in a figure; a longer one loses its middle."""


@dataclass(frozen=True)
class Look:
    """The style of an arm in every figure; dash and marker distinguish it where colors repeat.

    Attributes:
        index: 0 for the suite's reference; the baselines follow in the order of the suite.
        label: the arm's name, shortened to `LONGEST_NAME`, with dollar signs escaped.
        color: the color of its lines, markers and text.
        dash, marker: of its lines and values, in matplotlib's notation.
    """

    index: int
    label: str
    color: str
    dash: Any
    marker: str

    @property
    def wide(self) -> bool:
        """Whether its line is wide, so that it stays visible under a line that coincides with it."""
        return self.index == 0


Looks = Mapping[str, Look]
"""The look of each optimizer, the reference first."""


def looks_of(suite: Suite) -> Looks:
    """The look of each optimizer, the same in all figures."""
    names = sorted(suite.optimizers, key=lambda name: name != suite.reference)
    colors, dashes, markers = cycle(ARM_COLORS[1:]), cycle(DASHES), cycle(MARKERS)
    styles = chain([(REFERENCE_COLOR, "-", "o")], zip(colors, dashes, markers, strict=False))
    labels = short_names(names)
    return {name: Look(i, labels[name], *x) for i, (name, x) in enumerate(zip(names, styles, strict=False))}


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Names shortened for figures, all of them different, with dollar signs escaped.

    A long name loses its middle. Names that would look alike keep the place where they begin to differ.
    """
    shown = {name: name if len(name) <= LONGEST_NAME else f"{name[:12]}…{name[-11:]}" for name in names}
    for text in {text for text, count in Counter(shown.values()).items() if count > 1}:
        alike = [name for name in names if shown[name] == text]
        shared = takewhile(lambda letters: len(set(letters)) == 1, zip(*alike, strict=False))
        start = max(len([*shared]) - 3, 7)
        for i, name in enumerate(alike, 1):
            shown[name] = f"{name[:5]}…{name[start : start + 13]}…{i}"
    return {name: text.replace("$", r"\$") for name, text in shown.items()}


def reference_first(results: Results, arena: str) -> list[ArmResults]:
    """The arms of an arena, the reference's first."""
    return sorted(results.of(arena), key=lambda arm: arm.optimizer != results.study.suite.reference)


def axis_label(suite: Suite, arena: str) -> tuple[str, bool]:
    """Label of the axis of the primary metric, and whether higher is better."""
    metric = suite.arenas[arena].metric
    maximize = suite.facts(arena).metrics[metric] == "max"
    return f"{suite.selection_name} {metric} ({'higher' if maximize else 'lower'} is better)", maximize


def arm_label(arm: ArmResults, look: Look) -> str:
    """The name of an arm, with the seeds that finished if not all did."""
    finished = arm.count("finished")
    return look.label if finished == len(arm.final) else f"{look.label} †{finished}/{len(arm.final)}"


def no_line(arms: Sequence[ArmResults], drawn: Sequence[ArmResults], looks: Looks) -> str:
    """The names of the arms that are not drawn, on a line of their own below an axis' label; empty for none."""
    absent = [arm_label(arm, looks[arm.optimizer]) for arm in arms if arm not in drawn]
    return f"\nno line: {', '.join(absent)}" if absent else ""
