"""Tests whether the speed-up of an optimizer changes with size, and the smallest trend that a ladder can detect.

A ladder is a study of models of several sizes. Each of its cells is a size, a number of steps and an optimizer. Its law
describes the losses of the cells. The trend t_o of optimizer o is the exponent of the size in its speed-up, in the
formulas of `scaling_law`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairbench.analysis.statistics.least_squares import Array, Observations
from fairbench.analysis.statistics.power import detectable_noncentrality
from fairbench.analysis.statistics.scaling_law import STEEPEST, Law, fit, too_few
from fairbench.analysis.statistics.significance import LEVEL, TTest, critical_t, holm

TREND_MARGIN = 0.05
"""The largest trend that does not matter, unless another one is declared: 12% for ten times the size."""
UNKNOWN = "cannot be told"
"""The verdict on a trend that the trials do not determine."""
POWER = 0.92
"""The power of a forecast by the delta method. At least 90% of simulated studies then find the trend."""
TAIL = LEVEL / 2
"""The probability beyond each end of the interval that a test has."""
ROUNDS = 6
"""The number of rounds in which the detectable trend is corrected for its effect on its own error.

The correction is a few percent in the first round and nothing in the last."""


@dataclass(frozen=True)
class Trend:
    """The verdict of a ladder on the trend of an optimizer's speed-up.

    Attributes:
        verdict: "grows", "shrinks" or "holds", as `verdict` defines them, or `UNKNOWN`.
        p_holm: the p-value of no trend, corrected for the optimizers of the ladder; None without a test.
        note: why there is no proper test; empty where there is one.
    """

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
    """The law of a ladder, and the verdict on each optimizer but the reference; `fit` explains the cells.

    An optimizer with too few cells is left out of the law, and still counts in Holm's correction. The law is None where
    the cells or their losses do not determine it.
    """
    names = [name for name in dict.fromkeys(optimizers) if name != reference]
    shortages = {}
    for name in (reference, *names):
        cells = np.array([optimizer == name for optimizer in optimizers])
        shortages[name] = too_few(sizes[cells], steps[cells])
    kept = [i for i, name in enumerate(optimizers) if not shortages[name]]
    kept_optimizers = [optimizers[i] for i in kept]
    try:
        if shortages[reference]:
            raise ValueError(f"{reference} has {shortages[reference]}")
        law = fit(sizes[kept], steps[kept], losses[kept], kept_optimizers, reference)
    except ValueError as error:
        return None, [Trend(name, UNKNOWN, note=str(error)) for name in names]

    tests = {name: TTest(0.0, reason=shortages[name]) for name in names}
    for speed_up in law.speed_ups:
        tests[speed_up.optimizer] = speed_up.trend
    adjusted = holm([test.p for test in tests.values()])
    trends = []
    for name, p_holm in zip(names, adjusted, strict=True):
        test = tests[name]
        trend = Trend(
            optimizer=name,
            verdict=verdict(test, p_holm, alpha, margin),
            p_holm=p_holm,
            note=test.reason,
        )
        trends.append(trend)
    return law, trends


def verdict(trend: TTest, p_holm: float | None, alpha: float, margin: float) -> str:
    """The verdict on a trend.

    It is "grows" or "shrinks" if the trend is significant, and "holds" if its interval of level 1 - 2 alpha lies within
    the margin on both sides. Otherwise the trend is unknown.
    """
    if trend.ci_low is None or trend.ci_high is None or trend.df is None or p_holm is None:
        return UNKNOWN
    if p_holm < alpha:
        if trend.difference > 0:
            return "grows"
        return "shrinks"
    half_width = (trend.ci_high - trend.ci_low) / 2
    error = half_width / critical_t(TAIL, trend.df)
    farthest = abs(trend.difference) + critical_t(alpha, trend.df) * error
    if farthest < margin:
        return "holds"
    return UNKNOWN


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

    j is the row of t_o in the pseudoinverse of the derivatives of the losses by the parameters (delta method). They are
    taken at the law with this trend, t_o or -t_o, whichever has the larger error. S is the covariance of the cells over
    the seeds. The noncentrality is that of `detectable_noncentrality`, with seeds - 1 degrees of freedom.

    Args:
        sizes, steps, optimizers: size, steps and optimizer of each planned cell.
        law: the assumed law; an optimizer that it does not have is as fast as the reference.
        spread: standard deviation between seeds in each cell, if cells are independent; otherwise S. |t| is smaller if
            the cells of different optimizers have a seed's deviation in common, and larger if those of one have.
        power: the power by the delta method. The fit is not linear, so simulated studies find this trend slightly less
            often.

    Returns:
        |t| of each optimizer but the reference; empty for fewer than 2 seeds, and where the cells are `too_few`.
    """
    names = [name for name in dict.fromkeys(optimizers) if name != law.reference]
    if seeds < 2 or not names or too_few(sizes, steps):
        return {}
    observed = Observations.of(sizes / law.center, steps, optimizers, names)
    others = _parameters_without_trends(law, names)
    covariance = np.asarray(spread) if np.ndim(spread) else spread**2 * np.eye(len(sizes))
    level = alpha / len(names)
    needed = detectable_noncentrality(seeds - 1, level, power) / math.sqrt(seeds)

    detectable = np.zeros(len(names))
    for _ in range(ROUNDS):
        trends = np.minimum(detectable, STEEPEST)
        growing = _errors(observed, others, trends, covariance)
        shrinking = _errors(observed, others, -trends, covariance)
        detectable = needed * np.maximum(growing, shrinking)
    return dict(zip(names, detectable.tolist(), strict=True))


def _parameters_without_trends(law: Law, names: Sequence[str]) -> list[float]:
    """The parameters of a law in the order of `Observations`, without the trends of the named optimizers at the end.

    Sizes are relative to the center. The first parameter, log E, is 0: the errors of the trends do not depend on it.
    """
    log_a = math.log(law.A) - law.alpha * math.log(law.center)
    log_b = math.log(law.B)
    known = {speed_up.optimizer: speed_up.log.difference for speed_up in law.speed_ups}
    logs = [known.get(name, 0.0) for name in names]
    log_e = 0.0  # E only scales its own column of the derivatives
    return [log_e, log_a, math.log(law.alpha), log_b, math.log(law.beta), *logs]


def _errors(observed: Observations, others: Sequence[float], trends: Array, covariance: Array) -> Array:
    """The standard error of each trend for one seed, at these parameters and trends, by the delta method."""
    parameters = np.array([*others, *trends])
    inverse = np.linalg.pinv(observed.jacobian(parameters))
    rows = inverse[-len(trends) :]
    variances = np.diag(rows @ covariance @ rows.T)
    return np.asarray(np.sqrt(variances))
