"""All optimizers of a study side by side: ranks over the arenas, verdicts against the reference, cost."""

import math
from collections import Counter
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
        step_ratio: time of clipping, optimizer and schedule over the reference's, median over the arenas.
        train_ratio: time of a training step over the reference's, median over the arenas.
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
    return [_standing(analyses, name, overall.get(name)) for name in dict.fromkeys([*overall, *suite.optimizers])]


def _standing(analyses: Analyses, name: str, rank: Rank | None) -> Standing:
    reference, study = analyses.suite.reference, analyses.results.study
    facts = facts_of(study.optimizers[name].factory)
    step_ratio, train_ratio = _ratios(analyses.of(costs), reference, name)
    faster = [row for row in analyses.of(speedups) if row.optimizer == name]
    against = [c.verdict for c in analyses.comparisons if (c.optimizer, c.baseline) == (name, reference)]
    counts = Counter(verdict if verdict in DECIDED else "undecided" for verdict in against)
    return Standing(
        optimizer=name,
        mean_rank=rank.rank if rank else None,
        groups=rank.groups if rank else "",
        critical_difference=rank.critical_difference if rank else None,
        **{x: counts[x] if against else None for x in (*DECIDED, "undecided")},
        step_ratio=step_ratio,
        train_ratio=train_ratio,
        speedup=_median(faster),
        faster=sum(row.claimed for row in faster) if faster else None,
        state=facts.state if facts else None,
        further_state=facts.factors if facts else "",
        tuned=study.tuned(name),
    )


def _median(rows: Sequence[Speedup]) -> float | None:
    """The median of speed-ups, of which some may be beyond the horizons."""
    values = [{"at least": math.inf, "at most": 0.0}.get(row.beyond, row.speedup or math.nan) for row in rows]
    middle = median(values) if values and not any(map(math.isnan, values)) else 0.0
    return middle if 0 < middle < math.inf else None


def _ratios(costs: Sequence[Cost], reference: str, name: str) -> tuple[float | None, float | None]:
    """The times of the optimizer's part of a step and of a whole step over the reference's; medians over arenas."""
    theirs = {x.arena: x for x in costs if x.optimizer == reference}
    pairs = [(x, theirs[x.arena]) for x in costs if x.optimizer == name and x.arena in theirs]
    if not pairs:
        return None, None
    return median(a.step_ms / b.step_ms for a, b in pairs), median(a.train_ms / b.train_ms for a, b in pairs)
