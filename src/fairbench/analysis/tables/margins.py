"""Margins that cannot be meant, such as one in percent for values that are fractions."""

from collections.abc import Sequence
from statistics import median

from fairbench.analysis.tables.arenas import ArenaTable
from fairbench.common.grouping import grouped

TINY = 1e-3
"""The share of the usual scatter below which no possible number of seeds detects a margin."""


def notes_on_margins(arenas: Sequence[ArenaTable]) -> list[str]:
    """Notes on margins that are larger than all differences of values, or far below their scatter over the seeds."""
    arenas_of = grouped((arena.margin, arena) for arena in arenas if arena.margin is not None)
    notes = []
    for margin, found in arenas_of.items():
        widest = max(map(_range, found))
        arms = [arm for arena in found for arm in arena.arms.values()]
        scatters = [arm.summary().std for arm in arms if arm.size > 1 and arm.finished == arm.size]
        if 0 < widest < margin:
            notes.append(
                f"the margin {margin:g} is larger than the range of all values, {widest:.2g}: is it in their unit?"
            )
        elif scatters and margin < TINY * median(scatters):
            scatter = f"the scatter over the seeds, {median(scatters):.2g}"
            notes.append(f"the margin {margin:g} is far below {scatter}: is it in their unit?")
    return notes


def _range(arena: ArenaTable) -> float:
    """The largest difference of two values in an arena; 0 without values."""
    values = [value for arm in arena.arms.values() for value in arm.finite_values]
    return max(values, default=0.0) - min(values, default=0.0)
