"""Ranks with their uncertainty: within an arena by the verdicts on all pairs, over arenas by average ranks."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import fmean

from scipy import stats

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import Results
from fairbench.suites.schema import ALL_ARENAS

Pairs = Collection[tuple[str, str]]
"""Pairs of optimizers of which the first is better than the second."""


@dataclass(frozen=True)
class Rank:
    """The rank of an optimizer, in one arena or over all of them.

    Attributes:
        arena: name of the arena, or "all arenas".
        mean: mean of the primary metric over the seeds; None unless all finished, and over all arenas.
        rank: 1 is best; ties have their average, and an arm that diverged is last. Over all arenas the mean of the
            ranks. None while trials are missing.
        rank_low: the best rank that is not ruled out: 1 + the number of optimizers that are better.
        rank_high: the worst rank that is not ruled out: the number of all optimizers - the number of those that are
            worse.
        method: the test that separates them.
        p: p-value of Friedman's test that the optimizers do not differ over the arenas; None within an arena.
    """

    arena: str
    optimizer: str
    mean: float | None
    rank: float | None
    rank_low: int
    rank_high: int
    groups: str
    method: str
    p: float | None = None
    critical_difference: float | None = None


def ranking(analyses: Analyses) -> list[Rank]:
    """The ranks where the verdicts on all pairs separate optimizers; empty unless all pairs are compared."""
    return analyses.of(ranks) if analyses.suite.every_pair else []


def ranks(analyses: Analyses) -> list[Rank]:
    """The ranks in each arena in the order of the suite, then those over all arenas; the best first."""
    suite = analyses.suite
    within = [within_arena(analyses.results, arena, analyses.comparisons) for arena in suite.compared_arenas]
    return [rank for of_arena in (*within, over_arenas(within, suite.alpha)) for rank in of_arena]


def within_arena(results: Results, arena: str, comparisons: Sequence[Comparison]) -> list[Rank]:
    """The ranks in an arena.

    Two arms are separated where the verdict on them is better or worse. All these verdicts are right with probability
    1 - alpha, since Holm's correction is over all pairs; so are all bounds of the ranks.

    Source: Al Mohamad, Goeman and van Zwet, "Simultaneous confidence intervals for ranks ...", CSDA 2019.
    """
    arms, suite = results.of(arena), results.study.suite
    metric, sign = suite.arenas[arena].metric, suite.sign(arena)
    means = {arm.optimizer: fmean(arm.scores(metric)) for arm in arms if arm.complete}
    scores = {arm.optimizer: -sign * means[arm.optimizer] if arm.optimizer in means else math.inf for arm in arms}
    judged = [c for c in comparisons if c.arena == arena]
    better = {(c.optimizer, c.baseline) for c in judged if c.verdict == "better"}
    better |= {(c.baseline, c.optimizer) for c in judged if c.verdict == "worse"}
    complete = all(arm.diverged or not arm.count("missing", "failed") for arm in arms)
    ranks = dict(zip(scores, stats.rankdata(list(scores.values())).tolist(), strict=True)) if complete else {}
    order = sorted(scores, key=scores.__getitem__)
    return [
        Rank(arena, name, means.get(name), ranks.get(name), *bounds, "verdicts on all pairs")
        for name, bounds in _bounds(order, better).items()
    ]


def over_arenas(within: Sequence[Sequence[Rank]], alpha: float) -> list[Rank]:
    """The ranks over the arenas in which all ranks are known; none without such an arena.

    Friedman's test asks whether the ranks differ at all; where they do, Nemenyi's critical difference separates two
    optimizers. There is no test where the critical difference exceeds the distance from always first to always last.
    (Friedman's p is that of chi squared, too large for few arenas.)
    Both treat the arenas as independent: a task at two horizons counts twice.

    Source: Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 2006, section 3.2.
    """
    known = [{x.optimizer: x.rank for x in ranks if x.rank is not None} for ranks in within]
    complete = [block for block, ranks in zip(known, within, strict=True) if len(block) == len(ranks)]
    if not complete:
        return []
    means = {name: fmean(block[name] for block in complete) for name in complete[0]}
    order = sorted(means, key=means.__getitem__)
    k, n = len(means), len(complete)
    difference = critical_difference(k, n, alpha) if k > 2 else math.inf
    tested = difference < k - 1
    p = friedman([[block[name] for name in order] for block in complete]) if tested else 1.0
    apart = {(a, b) for a in order for b in order if p < alpha and means[b] - means[a] > difference}
    about = ("Friedman, Nemenyi", p, difference) if tested else ("too few arenas", None, None)
    bounds = _bounds(order, apart)
    return [Rank(ALL_ARENAS, name, None, means[name], *bounds[name], *about) for name in order]


def friedman(ranks: Sequence[Sequence[float]]) -> float:
    """The p-value of Friedman's test, corrected for ties; 1 where all share one rank everywhere.

    Of at least 3 optimizers, with a row for each of at least 2 arenas.

    Source: Friedman, "The use of ranks to avoid the assumption of normality ...", J. Am. Stat. Assoc. 1937.
    """
    if all(len(set(row)) == 1 for row in ranks):
        return 1.0
    return float(stats.friedmanchisquare(*zip(*ranks, strict=True)).pvalue)


def critical_difference(k: int, n: int, alpha: float) -> float:
    """Nemenyi's critical difference of the mean ranks of k optimizers in n arenas.

        CD = q_alpha sqrt(k (k + 1) / (6 n)),    q_alpha: the studentized range of k and infinity, over sqrt(2)

    Source: Demsar 2006; Nemenyi, "Distribution-free multiple comparisons", thesis, Princeton 1963.
    """
    q = float(stats.studentized_range.ppf(1 - alpha, k, math.inf)) / math.sqrt(2)
    return q * math.sqrt(k * (k + 1) / (6 * n))


def _bounds(order: Sequence[str], better: Pairs) -> Mapping[str, tuple[int, int, str]]:
    """The best and the worst rank and the groups of each optimizer, in the order given."""
    lettered = list(zip(filter(str.isalpha, map(chr, count(ord("a")))), groups(order, better), strict=False))
    return {
        name: (
            1 + sum(loser == name for _, loser in better),
            len(order) - sum(winner == name for winner, _ in better),
            "".join(letter for letter, group in lettered if name in group),
        )
        for name in order
    }


def groups(order: Sequence[str], apart: Pairs) -> list[frozenset[str]]:
    """The largest groups in which no two are separated: two share a group if and only if they are not.

    Each separated pair splits every group that has both into one without the first and one without the second; a group
    that is part of a larger one is dropped. The names begin with the best, and so do the groups.

    Source: Piepho, "An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons", JCGS 2004.
    """
    largest = {frozenset(order)}
    for pair in apart:
        halves = {group - {name} if group.issuperset(pair) else group for group in largest for name in pair}
        largest = {group for group in halves if not any(group < other for other in halves)}
    return sorted(largest, key=lambda group: [order.index(name) for name in order if name in group])
