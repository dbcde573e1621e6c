"""Whether the speed-up of an optimizer changes with size: the verdict, and the trend that a ladder can detect."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairbench.analysis.statistics.power import detectable_noncentrality
from fairbench.analysis.statistics.scaling_law import STEEPEST, Array, Law, Observations, fit, too_few
from fairbench.analysis.statistics.significance import TTest, critical_t, holm

TREND_MARGIN = 0.05
"""The largest trend that does not matter, unless another one is declared: 12% for ten times the size."""
UNKNOWN = "cannot be told"
"""The verdict on a trend that the trials do not determine."""
POWER = 0.92
"""The power of a forecast by the delta method. At least 90% of simulated studies then find the trend."""
ROUNDS = 6
"""Rounds in which the detectable trend is corrected for its effect on its error, from a few percent to nothing."""


@dataclass(frozen=True)
class Trend:
    """What a ladder says about the trend t_o of an optimizer's speed-up, as in a `SizeTrend`."""

    optimizer: str
    verdict: str
    p_holm: float | None = None
    note: str = ""


def judge_trends(
    sizes: Array,
    steps: Array,
    losses: Array,
    optimizers: Sequence[str],
    reference: str,
    *,
    alpha: float = 0.05,
    margin: float = TREND_MARGIN,
) -> tuple[Law | None, list[Trend]]:
    """The law of a ladder, of which `fit` explains the cells, and the verdict on each optimizer but the reference.

    An optimizer with too few cells is left out of the law, and still counts in Holm's correction. The law is None where
    the cells or their losses do not determine it.
    """
    of = {name: np.array([x == name for x in optimizers]) for name in (reference, *dict.fromkeys(optimizers))}
    notes = {name: too_few(sizes[cells], steps[cells]) for name, cells in of.items()}
    kept = [i for i, name in enumerate(optimizers) if not notes[name]]
    try:
        if notes[reference]:
            raise ValueError(f"{reference} has {notes[reference]}")
        law = fit(sizes[kept], steps[kept], losses[kept], [optimizers[i] for i in kept], reference)
    except ValueError as error:
        return None, [Trend(name, UNKNOWN, note=str(error)) for name in of if name != reference]
    known = {x.optimizer: x.trend for x in law.speed_ups}
    tests = {name: known.get(name, TTest(0.0, reason=notes[name])) for name in of if name != reference}
    adjusted = holm([test.p for test in tests.values()])
    return law, [
        Trend(name, verdict(test, p, alpha, margin), p, test.reason)
        for (name, test), p in zip(tests.items(), adjusted, strict=True)
    ]


def verdict(trend: TTest, p_holm: float | None, alpha: float, margin: float) -> str:
    """The verdict on a trend: "holds" where its interval of level 1 - 2 alpha lies within the margin on both sides."""
    if trend.ci_low is None or trend.ci_high is None or trend.df is None or p_holm is None:
        return UNKNOWN
    if p_holm < alpha:
        return "grows" if trend.difference > 0 else "shrinks"
    error = (trend.ci_high - trend.ci_low) / 2 / critical_t(0.025, trend.df)
    within = abs(trend.difference) + critical_t(alpha, trend.df) * error < margin
    return "holds" if within else UNKNOWN


def detectable_trend(
    sizes: Array,
    steps: Array,
    optimizers: Sequence[str],
    seeds: int,
    law: Law,
    spread: float | Array,
    *,
    alpha: float = 0.05,
    power: float = POWER,
) -> dict[str, float]:
    """The smallest trend, in either direction, that a ladder detects at the strictest step of Holm's correction.

        |t| = noncentrality x error,    error^2 = j S j^T / seeds

    j is the row of t_o in the pseudoinverse of the derivatives of the losses (delta method) at the law with this trend,
    of the sign with the larger error, S the covariance of the cells over the seeds; T has seeds - 1 degrees of freedom.
    The noncentrality is that of `detectable_noncentrality`.

    Args:
        sizes, steps, optimizers: of each planned cell.
        law: the assumed law; an optimizer that it does not have is as fast as the reference.
        spread: standard deviation between seeds in each cell, if cells are independent; otherwise S. What a seed shares
            between optimizers makes smaller trends detectable, what it shares within one makes larger ones needed.
        power: of the delta method. The fit is not linear, so simulated studies find this trend slightly less often.

    Returns:
        |t| of each optimizer but the reference; empty for fewer than 2 seeds, and where the cells are `too_few`.
    """
    names = [name for name in dict.fromkeys(optimizers) if name != law.reference]
    if seeds < 2 or not names or too_few(sizes, steps):
        return {}
    cells = Observations.of(sizes / law.center, steps, optimizers, names)
    known = {x.optimizer: x.log.difference for x in law.speed_ups}
    a, b = math.log(law.A) - law.alpha * math.log(law.center), math.log(law.B)
    # any E has the same derivatives but for a factor
    shared = [0.0, a, math.log(law.alpha), b, math.log(law.beta), *(known.get(name, 0.0) for name in names)]
    covariance = np.asarray(spread) if np.ndim(spread) else spread**2 * np.eye(len(sizes))
    needed = detectable_noncentrality(seeds - 1, alpha / len(names), power) / math.sqrt(seeds)

    found = np.zeros(len(names))
    for _ in range(ROUNDS):
        at = np.minimum(found, STEEPEST)
        found = needed * np.maximum(*(_errors(cells, shared, x, covariance) for x in (at, -at)))
    return dict(zip(names, found.tolist(), strict=True))


def _errors(cells: Observations, others: Sequence[float], trends: Array, covariance: Array) -> Array:
    """The standard errors of trends for one seed."""
    rows = np.linalg.pinv(cells.jacobian(np.array([*others, *trends])))[-len(trends) :]
    return np.asarray(np.sqrt(np.diag(rows @ covariance @ rows.T)))
