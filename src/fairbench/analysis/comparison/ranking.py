"""Ranks with their uncertainty: within an arena by the verdicts on all pairs, over arenas by average ranks."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, count, product
from statistics import fmean
from typing import NamedTuple

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
        groups: letters of the groups that have it. Two optimizers share a letter where they are not separated.
        method: the test that separates them.
        p: p-value of Friedman's test that the optimizers do not differ over the arenas; None within an arena.
        critical_difference: the difference of mean ranks that separates two optimizers; None within an arena.
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
    """The ranks of the optimizers; empty unless the suite compares all pairs."""
    if not analyses.suite.every_pair:
        return []
    return analyses.of(ranks)


def ranks(analyses: Analyses) -> list[Rank]:
    """The ranks in each arena, in the order of the suite, then the ranks over all arenas. The best rank comes first."""
    suite = analyses.suite
    within = [within_arena(analyses.results, arena, analyses.comparisons) for arena in suite.compared_arenas]
    overall = over_arenas(within, suite.alpha)
    return [*chain.from_iterable(within), *overall]


def within_arena(results: Results, arena: str, comparisons: Sequence[Comparison]) -> list[Rank]:
    """The ranks in an arena.

    Two arms are separated where the verdict on them is better or worse. All these verdicts are right with probability
    1 - alpha, since Holm's correction is over all pairs; so are all bounds of the ranks.

    Source: Al Mohamad, Goeman and van Zwet, "Simultaneous confidence intervals for ranks ...", CSDA 2019.
    """
    arms = results.of(arena)
    suite = results.study.suite
    metric = suite.arenas[arena].metric
    sign = suite.sign(arena)
    means = {arm.optimizer: fmean(arm.scores(metric)) for arm in arms if arm.complete}
    # lower costs are better; arms that did not finish are last
    costs = {}
    for arm in arms:
        costs[arm.optimizer] = math.inf
        if arm.optimizer in means:
            costs[arm.optimizer] = -sign * means[arm.optimizer]
    rank_of: dict[str, float] = {}
    # no rank is known while trials are missing
    if all(arm.diverged or not arm.count("missing", "failed") for arm in arms):
        ranked = stats.rankdata([*costs.values()])
        rank_of = dict(zip(costs, ranked.tolist(), strict=True))
    order = sorted(costs, key=costs.__getitem__)
    better = _separated_by_verdicts(arena, comparisons)
    rows = []
    for name, bounds in _bounds(order, better).items():
        rank = Rank(
            arena=arena,
            optimizer=name,
            mean=means.get(name),
            rank=rank_of.get(name),
            rank_low=bounds.low,
            rank_high=bounds.high,
            groups=bounds.groups,
            method="verdicts on all pairs",
        )
        rows.append(rank)
    return rows


def _separated_by_verdicts(arena: str, comparisons: Sequence[Comparison]) -> Pairs:
    """The pairs of optimizers in an arena whose verdict is better or worse, the better one first."""
    better = set()
    for c in comparisons:
        if c.arena == arena and c.verdict == "better":
            better.add((c.optimizer, c.baseline))
        elif c.arena == arena and c.verdict == "worse":
            better.add((c.baseline, c.optimizer))
    return better


def over_arenas(within: Sequence[Sequence[Rank]], alpha: float) -> list[Rank]:
    """The mean ranks over the arenas in which all ranks are known; empty without such an arena.

    Friedman's test asks whether the ranks differ at all; where they do, Nemenyi's critical difference separates two
    optimizers. There is no test where the critical difference exceeds the distance from always first to always last.
    (Friedman's p is that of chi squared, too large for few arenas.)
    Both tests treat the arenas as independent: a task at two horizons counts twice.

    Args:
        within: the ranks in each arena.
        alpha: the level of both tests.

    Source: Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 2006, section 3.2.
    """
    ranks_of_arenas = []
    for rows_of_arena in within:
        known = {row.optimizer: row.rank for row in rows_of_arena if row.rank is not None}
        if len(known) == len(rows_of_arena):
            ranks_of_arenas.append(known)
    if not ranks_of_arenas:
        return []
    means = {name: fmean(known[name] for known in ranks_of_arenas) for name in ranks_of_arenas[0]}
    order = sorted(means, key=means.__getitem__)
    method = "too few arenas"
    p = None
    difference = None
    separated = set()
    if len(means) > 2:
        critical = critical_difference(len(means), len(ranks_of_arenas), alpha)
        if critical < len(means) - 1:
            method = "Friedman, Nemenyi"
            p = friedman([[known[name] for name in order] for known in ranks_of_arenas])
            difference = critical
            if p < alpha:
                separated = {(a, b) for a, b in product(order, order) if means[b] - means[a] > critical}
    rows = []
    for name, bounds in _bounds(order, separated).items():
        rank = Rank(
            arena=ALL_ARENAS,
            optimizer=name,
            mean=None,
            rank=means[name],
            rank_low=bounds.low,
            rank_high=bounds.high,
            groups=bounds.groups,
            method=method,
            p=p,
            critical_difference=difference,
        )
        rows.append(rank)
    return rows


def friedman(ranks: Sequence[Sequence[float]]) -> float:
    """The p-value of Friedman's test, corrected for ties; 1 if all optimizers share one rank in every arena.

    Args:
        ranks: a row for each arena, at least 2, and a column for each optimizer, at least 3.

    Source: Friedman, "The use of ranks to avoid the assumption of normality ...", J. Am. Stat. Assoc. 1937.
    """
    if all(len(set(row)) == 1 for row in ranks):
        return 1.0
    return float(stats.friedmanchisquare(*zip(*ranks, strict=True)).pvalue)


def critical_difference(k: int, n: int, alpha: float) -> float:
    """Nemenyi's critical difference of the mean ranks of k optimizers in n arenas.

        CD = q_alpha sqrt(k (k + 1) / (6 n)),    q_alpha: the studentized range of k and infinity, over sqrt(2)

    Args:
        k: the number of optimizers, at least 2.
        n: the number of arenas, at least 1.
        alpha: the level of the test, between 0 and 1.

    Source: Demsar 2006; Nemenyi, "Distribution-free multiple comparisons", thesis, Princeton 1963.
    """
    studentized_range = float(stats.studentized_range.ppf(1 - alpha, k, math.inf))
    q = studentized_range / math.sqrt(2)
    return q * math.sqrt(k * (k + 1) / (6 * n))


class Bounds(NamedTuple):
    """The best and the worst rank of an optimizer that verdicts do not rule out, and its groups as letters."""

    low: int
    high: int
    groups: str


def _bounds(order: Sequence[str], better: Pairs) -> dict[str, Bounds]:
    """The bounds of the rank of each optimizer.

    Args:
        order: the optimizers, the best first.
        better: the pairs of optimizers of which the first is better than the second.
    """
    # "a" to "z", then the letters of other alphabets
    letters = filter(str.isalpha, map(chr, count(ord("a"))))
    lettered_groups = [*zip(groups(order, better), letters, strict=False)]
    bounds = {}
    for name in order:
        losses = sum(loser == name for _, loser in better)
        wins = sum(winner == name for winner, _ in better)
        own_letters = "".join(letter for group, letter in lettered_groups if name in group)
        bounds[name] = Bounds(low=1 + losses, high=len(order) - wins, groups=own_letters)
    return bounds


def groups(order: Sequence[str], apart: Pairs) -> list[frozenset[str]]:
    """The largest groups of optimizers in which no two are separated.

    Two optimizers share a group if and only if they are not separated. Each separated pair splits every group that has
    both into a group without the first and a group without the second. A group that is a part of a larger one is
    dropped.

    Args:
        order: the optimizers, the best first. The groups have the same order.
        apart: the pairs of optimizers that are separated.

    Source: Piepho, "An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons", JCGS 2004.
    """
    largest = {frozenset(order)}
    for first, second in apart:
        split = set()
        for group in largest:
            if first in group and second in group:
                split.add(group - {first})
                split.add(group - {second})
            else:
                split.add(group)
        largest = {group for group in split if not any(group < other for other in split)}

    def positions(group: frozenset[str]) -> list[int]:
        """The positions of the optimizers of a group in the order, the best first."""
        return sorted(order.index(name) for name in group)

    return sorted(largest, key=positions)
