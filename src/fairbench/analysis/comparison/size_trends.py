"""The law of each ladder, and the trend of each optimizer's speed-up over the size of the model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
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
"""The logarithm beyond which a limit of an interval counts as infinite."""


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
    """The law of a ladder, and the trend of each optimizer. The law is None if the trials do not determine it."""

    law: Law | None
    trends: list[SizeTrend]


def ladder_laws(analyses: Analyses) -> list[Law]:
    """The law of each ladder that has one, in the order of the suite."""
    return [ladder.law for ladder in analyses.of(ladders).values() if ladder.law]


def size_trends(analyses: Analyses) -> list[SizeTrend]:
    """The trend of each optimizer but the reference on each ladder, in the order of the suite."""
    return [row for ladder in analyses.of(ladders).values() for row in ladder.trends]


def ladders(analyses: Analyses) -> dict[str, Ladder]:
    """The law and the trends of each ladder of the suite, by its name."""
    return judge_ladders(analyses.results)


def judge_ladders(results: Results) -> dict[str, Ladder]:
    """The law and the trends of each ladder, by its name.

    The level of the verdicts is alpha over the number of ladders.
    """
    suite = results.study.suite
    judged = {}
    for ladder, arenas in suite.ladders.items():
        level = suite.alpha / len(suite.ladders)
        judged[ladder] = _judge(results, ladder, arenas, level)
    return judged


def detectable_trends(results: Results) -> dict[str, tuple[float | None, float]]:
    """What the planned seeds detect on each ladder that can determine a law, for each of its arenas.

    Returns:
        The trend that is detected for every optimizer, None without records that give a law; and the spread between
        seeds with which `trend_margin` would be detected. A `Forecast` has both as `trend` and `trend_spread`.
    """
    suite = results.study.suite
    seeds = len(suite.final.seeds)
    judged = judge_ladders(results)
    trends_of_arenas: dict[str, tuple[float | None, float]] = {}
    for ladder, arenas in suite.ladders.items():
        sizes, steps, names = _design(suite, [*product(arenas, suite.optimizers)])
        level = suite.alpha / len(suite.ladders)
        relative_sizes = sizes / center_of(sizes)
        relative_steps = steps / center_of(steps)
        spread = _needed_spread(relative_sizes, relative_steps, names, suite, level)
        if spread is None:
            continue  # the ladder has too few sizes, horizons or seeds
        trend = None
        law = judged[ladder].law
        if law and law.spread:
            # the plan assumes optimizers that are as fast as the reference
            equally_fast = replace(law, speed_ups=())
            trends = detectable_trend(sizes, steps, names, seeds, equally_fast, law.spread, alpha=level)
            trend = max(trends.values())  # the smallest that is detected for all of them
        for arena in arenas:
            trends_of_arenas[arena] = (trend, spread)
    return trends_of_arenas


def _needed_spread(sizes: Array, steps: Array, names: list[str], suite: Suite, level: float) -> float | None:
    """The spread between seeds with which a planned ladder detects a trend of `trend_margin`.

    It is a share of what the loss falls when the steps double.

    Args:
        sizes, steps: the size and the steps of each planned cell, relative to their centers.
        names: the optimizer of each cell.
        suite: the suite, for the reference, the seeds and the margin.
        level: the level of the verdicts of the ladder.

    Returns:
        None where the ladder detects no trend.
    """
    typical = Law(
        reference=suite.reference,
        E=0.0,
        A=1.0,
        alpha=EXPONENT,
        B=1.0,
        beta=EXPONENT,
        center=1.0,
        largest=1.0,
    )
    seeds = len(suite.final.seeds)

    def detectable(spread: float) -> dict[str, float]:
        """The detectable trend of each optimizer with a spread."""
        return detectable_trend(sizes, steps, names, seeds, typical, spread, alpha=level)

    def excess(spread: float) -> float:
        """The largest detectable trend with a spread, minus the margin."""
        return max(detectable(spread).values()) - suite.trend_margin

    if not detectable(1.0):
        return None
    spread = float(optimize.brentq(excess, 1e-9, 1.0))  # where the excess is 0
    fall_when_steps_double = 1 - 2**-EXPONENT
    return spread / fall_when_steps_double


def _design(suite: Suite, cells: Sequence[tuple[str, str]]) -> tuple[Array, Array, list[str]]:
    """The size, the steps and the optimizer of each cell of a ladder. A cell is an arena with an optimizer."""
    sizes = []
    steps = []
    names = []
    for arena, optimizer in cells:
        plan = suite.arenas[arena]
        if plan.ladder_point:
            sizes.append(float(plan.ladder_point.parameters))
        steps.append(float(plan.steps))
        names.append(optimizer)
    return np.array(sizes), np.array(steps), names


def _judge(results: Results, ladder: str, arenas: Sequence[str], alpha: float) -> Ladder:
    """The law of a ladder and the trends of its optimizers."""
    suite = results.study.suite
    reference = suite.reference
    metric = suite.arenas[arenas[0]].metric
    complete_names = []
    for name in suite.optimizers:
        if all(results.arm(arena, name).complete for arena in arenas):
            complete_names.append(name)
    law = None
    trends: list[Trend] = []
    note = f"not all trials of {reference} finished"
    if reference in complete_names:
        law, trends = _law_and_trends(results, [*product(arenas, complete_names)], metric, alpha)
        note = "not all trials finished"
    known = {trend.optimizer: trend for trend in trends}
    points = [suite.arenas[arena].ladder_point for arena in arenas]
    smallest = min(point.parameters for point in points if point)
    rows = []
    for name in suite.optimizers:
        if name != reference:
            trend = known.get(name, Trend(name, UNKNOWN, note=note))
            rows.append(_row(ladder, reference, metric, trend, law, smallest))
    if law:
        law = replace(law, arena=ladder, metric=metric)
    return Ladder(law, rows)


def _law_and_trends(
    results: Results, cells: Sequence[tuple[str, str]], metric: str, alpha: float
) -> tuple[Law | None, list[Trend]]:
    """The law that fits the cells of a ladder, and the verdict on each trend. The trials of all cells are complete."""
    suite = results.study.suite
    scores = [results.arm(*cell).scores(metric) for cell in cells]
    # with interim analyses, some arms have only the first of the seeds
    shared_seeds = min(map(len, scores))
    losses = np.array([cell_scores[:shared_seeds] for cell_scores in scores])
    sizes, steps, names = _design(suite, cells)
    return judge_trends(sizes, steps, losses, names, suite.reference, alpha=alpha, margin=suite.trend_margin)


def _row(ladder: str, reference: str, metric: str, trend: Trend, law: Law | None, smallest: int) -> SizeTrend:
    """The row of an optimizer.

    Args:
        ladder: the name of the ladder.
        trend: the verdict on the optimizer.
        smallest: the smallest size of the ladder.
    """
    row = SizeTrend(
        arena=ladder,
        optimizer=trend.optimizer,
        reference=reference,
        metric=metric,
        verdict=trend.verdict,
        note=trend.note,
    )
    if law is None:
        return row
    speed_ups = {speed_up.optimizer: speed_up for speed_up in law.speed_ups}
    if trend.optimizer not in speed_ups:
        return row
    log = speed_ups[trend.optimizer].log
    exponent = speed_ups[trend.optimizer].trend
    return replace(
        row,
        speedup=math.exp(log.difference),
        ci_low=_limit(log.ci_low),
        ci_high=_limit(log.ci_high),
        smallest=law.speed_up(trend.optimizer, smallest),
        largest=law.speed_up(trend.optimizer, law.largest),
        trend=exponent.difference,
        trend_low=exponent.ci_low,
        trend_high=exponent.ci_high,
        p=exponent.p,
        p_holm=trend.p_holm,
    )


def _limit(log: float | None) -> float | None:
    """The limit of an interval with this logarithm; None if it is unknown or counts as infinite."""
    if log is None or log > FARTHEST:
        return None
    return math.exp(log)
