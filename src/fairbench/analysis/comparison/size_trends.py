"""Whether a speed-up changes with the size of the model: the law of each ladder, and the trend of each optimizer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import optimize

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import Results
from fairbench.analysis.statistics.least_squares import Array
from fairbench.analysis.statistics.scaling_law import Law, center_of
from fairbench.analysis.statistics.trend import UNKNOWN, Trend, detectable_trend, judge_trends
from fairbench.suites.schema import Suite

EXPONENT = 0.35
"""Both exponents of the law that a plan assumes while there are no records."""
FARTHEST = 20.0
"""The logarithm beyond which the end of an interval is not finite."""


@dataclass(frozen=True)
class SizeTrend:
    """The speed-up of an optimizer over the reference by the law of a ladder: r = speedup (size / center)^trend.

    Attributes:
        arena: the ladder, by the name of its arena in the suite file.
        reference: the optimizer that it is compared with, which has the speed-up 1.
        verdict: "grows" or "shrinks" if the speed-up does so with size, by Holm-corrected p below alpha; "holds" if the
            trend is within the suite's `trend_margin`, by its 90% interval; otherwise "cannot be told".
        speedup: at the geometric mean of the sizes; above 1 if the reference needs more steps.
        ci_low, ci_high: end of its 95% confidence interval; None for one that is not finite.
        smallest, largest: the speed-up at the smallest and at the largest size.
        trend: exponent of the size; 0.1 is 26% more for ten times the size.
        trend_low, trend_high: end of its 95% confidence interval, not corrected.
        p: two-sided p-value of no trend.
        p_holm: p corrected for the optimizers of the ladder.
    """

    arena: str
    optimizer: str
    reference: str
    metric: str
    verdict: str
    speedup: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    smallest: float | None = None
    largest: float | None = None
    trend: float | None = None
    trend_low: float | None = None
    trend_high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    note: str = ""


class Ladder(NamedTuple):
    """What the trials of a ladder say; without a law where they do not determine it."""

    law: Law | None
    trends: list[SizeTrend]


def ladder_laws(analyses: Analyses) -> list[Law]:
    """The law of each ladder that has one, in the order of the suite."""
    return [ladder.law for ladder in analyses.of(ladders).values() if ladder.law]


def size_trends(analyses: Analyses) -> list[SizeTrend]:
    """A row for each optimizer of each ladder but the reference, in the order of the suite."""
    return [row for ladder in analyses.of(ladders).values() for row in ladder.trends]


def ladders(analyses: Analyses) -> dict[str, Ladder]:
    """Each ladder of the suite by its name."""
    return judge_ladders(analyses.results)


def judge_ladders(results: Results) -> dict[str, Ladder]:
    """Each ladder by its name; the level of the verdicts is alpha over the number of ladders."""
    suite = results.study.suite
    return {x: _judge(results, x, arenas, suite.alpha / len(suite.ladders)) for x, arenas in suite.ladders.items()}


def detectable_trends(results: Results) -> dict[str, tuple[float | None, float]]:
    """`trend` and `trend_spread` of a `Forecast` for each arena; nothing where a ladder does not determine a law."""
    suite, found = results.study.suite, dict[str, tuple[float | None, float]]()
    judged = judge_ladders(results)
    for ladder, arenas in suite.ladders.items():
        sizes, steps, names = _design(suite, [(x, name) for x in arenas for name in suite.optimizers])
        design = (names, len(suite.final.seeds))
        level = suite.alpha / len(suite.ladders)
        spread = _spread((sizes / center_of(sizes), steps / center_of(steps), *design), suite, level)
        if spread is None:
            continue
        trend = None
        if (law := judged[ladder].law) and law.spread:
            alike = replace(law, speed_ups=())
            trend = max(detectable_trend(sizes, steps, *design, alike, law.spread, alpha=level).values())
        found |= dict.fromkeys(arenas, (trend, spread))
    return found


def _spread(design: tuple[Array, Array, list[str], int], suite: Suite, level: float) -> float | None:
    """The spread between seeds with which a design around 1 finds `trend_margin`, over what twice the steps gain."""
    own = suite.reference
    typical = Law(reference=own, E=0.0, A=1.0, alpha=EXPONENT, B=1.0, beta=EXPONENT, center=1.0, largest=1.0)

    def excess(spread: float) -> float:
        return max(detectable_trend(*design, typical, spread, alpha=level).values()) - suite.trend_margin

    if not detectable_trend(*design, typical, 1.0, alpha=level):
        return None
    return float(optimize.brentq(excess, 1e-9, 1.0)) / (1 - 2**-EXPONENT)


def _design(suite: Suite, cells: Sequence[tuple[str, str]]) -> tuple[Array, Array, list[str]]:
    """The size, the steps and the optimizer of each cell of a ladder, an arena with an optimizer."""
    plans = [suite.arenas[x] for x, _ in cells]
    sizes = np.array([float(plan.ladder_point.parameters) for plan in plans if plan.ladder_point])
    return sizes, np.array([float(plan.steps) for plan in plans]), [name for _, name in cells]


def _judge(results: Results, ladder: str, arenas: Sequence[str], alpha: float) -> Ladder:
    suite = results.study.suite
    metric, reference = suite.arenas[arenas[0]].metric, suite.reference
    names = [name for name in suite.optimizers if all(results.arm(x, name).complete for x in arenas)]
    law, trends, note = None, list[Trend](), f"not all trials of {reference} finished"
    if reference in names:
        cells = [(x, name) for x in arenas for name in names]
        scores = [results.arm(*cell).scores(metric) for cell in cells]
        shared = min(map(len, scores))  # with looks, arms have different numbers of the same seeds
        losses = np.array([of_cell[:shared] for of_cell in scores])
        sizes, steps, of_cells = _design(suite, cells)
        law, trends = judge_trends(sizes, steps, losses, of_cells, reference, alpha=alpha, margin=suite.trend_margin)
        note = "not all trials finished"
    about = {trend.optimizer: trend for trend in trends}
    smallest = min(plan.ladder_point.parameters for x in arenas if (plan := suite.arenas[x]).ladder_point)
    judged = [about.get(x) or Trend(x, UNKNOWN, note=note) for x in suite.optimizers if x != reference]
    rows = [_row(ladder, reference, metric, x, law, smallest) for x in judged]
    return Ladder(law and replace(law, arena=ladder, metric=metric), rows)


def _row(ladder: str, reference: str, metric: str, trend: Trend, law: Law | None, smallest: int) -> SizeTrend:
    row = SizeTrend(ladder, trend.optimizer, reference, metric, trend.verdict, note=trend.note)
    known = {x.optimizer: x for x in law.speed_ups} if law else {}
    if law is None or trend.optimizer not in known:
        return row
    log, exponent = known[trend.optimizer].log, known[trend.optimizer].trend
    low, high = (None if end is None or end > FARTHEST else math.exp(end) for end in (log.ci_low, log.ci_high))
    return replace(
        row,
        speedup=math.exp(log.difference),
        ci_low=low,
        ci_high=high,
        smallest=law.speed_up(trend.optimizer, smallest),
        largest=law.speed_up(trend.optimizer, law.largest),
        trend=exponent.difference,
        trend_low=exponent.ci_low,
        trend_high=exponent.ci_high,
        p=exponent.p,
        p_holm=trend.p_holm,
    )
