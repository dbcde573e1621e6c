"""All optimizers of a study side by side: ranks over the arenas, verdicts against the reference, cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.ranking import Rank, ranks
from fairbench.analysis.comparison.speedups import Speedup, speedups
from fairbench.analysis.comparison.verdicts import Verdict
from fairbench.analysis.cost import Cost, costs
from fairbench.optimizers.registry import facts_of
from fairbench.suites.schema import ALL_ARENAS

DECIDED: tuple[Verdict, ...] = ("better", "equivalent", "worse", "inconclusive")
"""The verdicts that are counted by their names; all others are undecided."""


@dataclass(frozen=True)
class Standing:
    """An optimizer over all arenas of a study.

    Attributes:
        mean_rank: mean of the ranks over the arenas, 1 is best; None while trials are missing.
        better, equivalent, worse, inconclusive: number of arenas with this verdict on it against the suite's
            reference; None where the suite does not compare it with that.
        undecided: number of arenas without such a verdict: one of the two diverged, trials are missing, or both are
            identical; None as above.
        step_ratio: time of clipping, optimizer and schedule over the reference's, median over the arenas; None without
            timing trials.
        train_ratio: time of a training step over the reference's, median over the arenas; None without timing trials.
        speedup: median over the arenas in which the reference has a curve over horizons; None without one, and where an
            arena is unknown or the median is beyond the horizons.
        faster: number of arenas in which it is faster, see `Speedup.claimed`; None without such a curve.
        state: numbers that it keeps for each weight; None if not known.
        further_state: further state that grows with the model, in words; may be empty.
        tuned: whether a learning rate was searched.
    """

    optimizer: str
    mean_rank: float | None
    groups: str
    critical_difference: float | None
    better: int | None
    equivalent: int | None
    worse: int | None
    inconclusive: int | None
    undecided: int | None
    step_ratio: float | None
    train_ratio: float | None
    speedup: float | None
    faster: int | None
    state: int | None
    further_state: str
    tuned: bool


def leaderboard(analyses: Analyses) -> list[Standing]:
    """The optimizers from the best mean rank to the worst; empty with fewer than 3 optimizers or 2 arenas.

    Source of the groups: Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 2006.
    """
    suite = analyses.suite
    if len(suite.optimizers) < 3 or len(suite.compared_arenas) < 2:
        return []
    overall = {rank.optimizer: rank for rank in analyses.of(ranks) if rank.arena == ALL_ARENAS}
    best_first = dict.fromkeys([*overall, *suite.optimizers])
    return [_standing(analyses, name, overall.get(name)) for name in best_first]


def _standing(analyses: Analyses, name: str, rank: Rank | None) -> Standing:
    """The row of an optimizer. Its rank over all arenas is None while it is not known."""
    study = analyses.results.study
    step_ratio, train_ratio = _ratios(analyses.of(costs), analyses.suite.reference, name)
    counts = _verdicts_against_reference(analyses, name)
    speedup_rows = [row for row in analyses.of(speedups) if row.optimizer == name]
    faster = None
    if speedup_rows:
        faster = sum(row.claimed for row in speedup_rows)
    mean_rank = None
    groups = ""
    critical_difference = None
    if rank is not None:
        mean_rank = rank.rank
        groups = rank.groups
        critical_difference = rank.critical_difference
    state = None
    further_state = ""
    facts = facts_of(study.optimizers[name].factory)
    if facts is not None:
        state = facts.state
        further_state = facts.factors
    return Standing(
        optimizer=name,
        mean_rank=mean_rank,
        groups=groups,
        critical_difference=critical_difference,
        better=counts["better"],
        worse=counts["worse"],
        equivalent=counts["equivalent"],
        inconclusive=counts["inconclusive"],
        undecided=counts["undecided"],
        step_ratio=step_ratio,
        train_ratio=train_ratio,
        speedup=_median_speedup(speedup_rows),
        faster=faster,
        state=state,
        further_state=further_state,
        tuned=study.tuned(name),
    )


def _verdicts_against_reference(analyses: Analyses, name: str) -> dict[str, int | None]:
    """The number of verdicts of each kind on an optimizer against the suite's reference.

    All are None if the suite does not compare the two.
    """
    kinds = (*DECIDED, "undecided")
    pair = (name, analyses.suite.reference)
    verdicts = [c.verdict for c in analyses.comparisons if (c.optimizer, c.baseline) == pair]
    if not verdicts:
        return dict.fromkeys(kinds)
    counts: dict[str, int | None] = {}
    for kind in DECIDED:
        counts[kind] = verdicts.count(kind)
    counts["undecided"] = sum(verdict not in DECIDED for verdict in verdicts)
    return counts


def _median_speedup(rows: Sequence[Speedup]) -> float | None:
    """The median of the speed-ups; None if it is beyond the horizons, or if a speed-up is unknown."""
    values = []
    for row in rows:
        if row.beyond == "at least":
            values.append(math.inf)
        elif row.beyond == "at most":
            values.append(0.0)
        elif row.speedup:
            values.append(row.speedup)
        else:
            return None
    if not values:
        return None
    middle = median(values)
    if 0 < middle < math.inf:
        return middle
    return None


def _ratios(costs: Sequence[Cost], reference: str, name: str) -> tuple[float | None, float | None]:
    """The ratios of an optimizer's times to the reference's, medians over arenas.

    The first is of the optimizer's part of a step, the second of the whole step. None without a common arena.
    """
    step_ms: dict[tuple[str, str], float] = {}
    train_ms: dict[tuple[str, str], float] = {}
    for cost in costs:
        if cost.step_ms and cost.train_ms:
            step_ms[cost.arena, cost.optimizer] = cost.step_ms
            train_ms[cost.arena, cost.optimizer] = cost.train_ms
    arenas = [arena for arena, optimizer in step_ms if optimizer == name and (arena, reference) in step_ms]
    if not arenas:
        return None, None
    step_ratios = [step_ms[arena, name] / step_ms[arena, reference] for arena in arenas]
    train_ratios = [train_ms[arena, name] / train_ms[arena, reference] for arena in arenas]
    return median(step_ratios), median(train_ratios)
