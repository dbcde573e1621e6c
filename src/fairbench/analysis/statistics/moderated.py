"""Variances of few values that borrow strength from each other: the moderated t-test.

Comparisons in one arena have similar variances. Each variance is drawn towards a common value, which is estimated from
all of them, and its test gets more degrees of freedom.

Source: Smyth, "Linear models and empirical Bayes methods for assessing differential expression", Stat. Appl. Genet.
Mol. Biol. 2004.
"""

import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import NamedTuple

from scipy import optimize, special

FEWEST = 3
"""The fewest variances that tell how much variances differ."""


class Prior(NamedTuple):
    """The common value of several variances, and how many degrees of freedom it is worth.

    `df` is 0 where the variances differ so much that they say nothing of each other.
    """

    variance: float
    df: float


NO_PRIOR = Prior(0.0, 0.0)


def common_variance(variances: Sequence[float], df: int) -> Prior:
    """The prior of sample variances that all have the same degrees of freedom.

        z_i = log s_i^2,    e_i = z_i - digamma(df/2) + log(df/2)
        trigamma(d/2) = var(e) - trigamma(df/2)
        log s^2 = mean(e) + digamma(d/2) - log(d/2)

    d is at most df, so that a prior never weighs more than the values of the comparison itself. Without this limit,
    simulated studies had too many false verdicts where the variances are not alike.

    Args:
        variances: positive sample variances.
        df: their degrees of freedom, at least 1.

    Returns:
        The prior; `NO_PRIOR` for fewer than `FEWEST` variances.
    """
    if len(variances) < FEWEST:
        return NO_PRIOR
    offset = float(special.digamma(df / 2)) - math.log(df / 2)
    logs = [math.log(value) - offset for value in variances]
    excess = variance(logs) - float(special.polygamma(1, df / 2))
    log_variance = fmean(logs)
    weight = float(df)
    if excess > 0:
        shape = _inverse_trigamma(excess)
        log_variance += float(special.digamma(shape)) - math.log(shape)
        weight = min(2 * shape, weight)
    return Prior(math.exp(log_variance), weight)


def moderated(sample_variance: float, df: float, prior: Prior) -> Prior:
    """A sample variance drawn towards the prior, and its degrees of freedom.

    s~^2 = (df s^2 + d s_0^2) / (df + d),    with df + d degrees of freedom
    """
    total = df + prior.df
    return Prior((df * sample_variance + prior.df * prior.variance) / total, total)


def _inverse_trigamma(value: float) -> float:
    """The x with trigamma(x) = value, for a positive value."""
    # trigamma(x) lies between 1/x and 1/x + 1/x^2; the factors of 2 are more than any rounding
    lowest = 1 / value / 2
    highest = (1 / value + 1 / math.sqrt(value)) * 2

    def excess(x: float) -> float:
        """Trigamma at x, minus the value."""
        return float(special.polygamma(1, x)) - value

    return float(optimize.brentq(excess, lowest, highest))
