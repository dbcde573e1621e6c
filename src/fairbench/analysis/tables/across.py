"""Comparisons over the arenas of a table with one value of each optimizer: the arenas take the place of seeds."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from fairbench.analysis.comparison.two_arms import of_values
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.tables.arenas import ArenaTable
from fairbench.analysis.tables.pairs import Pair

FEWEST = 3
"""The smallest number of arenas over which optimizers are compared."""


def over_arenas(arenas: Sequence[ArenaTable], pairs: Sequence[Pair], metric: str) -> list[Comparison]:
    """The paired test of each pair over the arenas in which both have a value, before Holm's correction.

    Empty unless each optimizer has one value in each arena, and the same values are better in all arenas.

    Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets" (JMLR 2006), advises signed ranks instead,
    since the differences of unlike data sets have unlike scales.
    """
    directions = {arena.direction for arena in arenas}
    if len(directions) > 1 or not all(_has_single_values(arena) for arena in arenas):
        return []
    values = [_values(arena) for arena in arenas]
    comparisons = []
    for optimizer, baseline in pairs:
        shared = [arena for arena in values if optimizer in arena and baseline in arena]
        if len(shared) < FEWEST:
            continue
        comparison = Comparison(
            arena=f"all {len(shared)} arenas",
            metric=metric,
            direction=arenas[0].direction,
            optimizer=optimizer,
            baseline=baseline,
            note=f"{len(shared)} arenas, not seeds",
            seeds=len(shared),
            n_optimizer=len(shared),
            n_baseline=len(shared),
        )
        ours = [arena[optimizer] for arena in shared]
        theirs = [arena[baseline] for arena in shared]
        comparisons.append(of_values(comparison, ours, theirs))
    return comparisons


def _has_single_values(arena: ArenaTable) -> bool:
    """Whether each optimizer has one value, which is no summary of several."""
    return all(arm.size == 1 and arm.given is None for arm in arena.arms.values())


def _values(arena: ArenaTable) -> dict[str, float]:
    """The value of each optimizer that has one."""
    values = {}
    for optimizer, arm in arena.arms.items():
        if arm.finished == 1:
            values[optimizer] = arm.summary().mean
    return values


def mean_ranks(arenas: Sequence[ArenaTable]) -> Mapping[str, float]:
    """The mean rank of each optimizer over the arenas, 1 is best; equal values share their ranks.

    Only arenas in which all optimizers have a value count. Empty without such arenas.
    """
    optimizers = dict.fromkeys(optimizer for arena in arenas for optimizer in arena.arms)
    ranks: dict[str, list[float]] = {optimizer: [] for optimizer in optimizers}
    for arena in arenas:
        values = _values(arena)
        if len(values) < len(optimizers):
            continue
        sign = -1.0
        if arena.direction == "min":
            sign = 1.0
        for optimizer, value in values.items():
            better = sum(sign * other < sign * value for other in values.values())
            equal = sum(other == value for other in values.values())
            ranks[optimizer].append(better + (equal + 1) / 2)
    return {optimizer: fmean(found) for optimizer, found in ranks.items() if found}
