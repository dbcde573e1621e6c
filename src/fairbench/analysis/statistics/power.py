"""Statistical power of the tests that decide: the effect that n seeds detect, and the seeds that an effect needs."""

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from scipy import optimize, special, stats

from fairbench.analysis.statistics.significance import Summary, critical_t, error_and_freedom

POWER = 0.8
"""The probability with which a difference is to be detected."""
MOST_SEEDS = 100_000
"""The largest number of seeds that is searched; a larger number is given as None."""
FAR = 1000.0
"""A critical t above which the series of noncentral t does not converge, as with two seeds at a strict level."""
LARGE = 30.0
"""A noncentrality above which that series may be nan: it begins with exp(-noncentrality^2 / 2)."""
NORMAL, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
"""Values of a standard normal variable, by Gauss and Hermite."""
SHARES = _WEIGHTS / _WEIGHTS.sum()
"""The share of each value in a mean over the variable."""
FARTHEST = 1e6
"""The largest noncentrality that is computed; its power is 1 at any t below `FAR`."""


def minimum_detectable_effect(n: int, alpha: float, test: str, power: float = POWER) -> float | None:
    """The true difference that a two-sided t-test of n against n seeds detects, in standard deviations.

        P(T > t_(1-alpha/2)) = power,    T noncentral t
        paired: n - 1 degrees of freedom, noncentrality d sqrt(n); d in standard deviations of the difference of a pair
        welch: 2n - 2 degrees of freedom, noncentrality d sqrt(n/2); d in standard deviations of one arm

    This is the power of the test alone, as if a verdict had no other rule and comparisons shared no variance.
    A rejection in the wrong direction does not count as a detection. With the correlation r of two arms that spread
    alike, the difference of a pair has a standard deviation of sqrt(2 (1 - r)) standard deviations of an arm. For n < 2
    there is no test, and None.

    Source: Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988, chapter 2.
    """
    if n < 2:
        return None
    if test == "paired":
        df = n - 1
        error = math.sqrt(1 / n)
    else:
        df = 2 * n - 2
        error = math.sqrt(2 / n)
    return detectable_noncentrality(df, alpha, power) * error


def detectable_noncentrality(df: int, alpha: float, power: float) -> float:
    """The true effect that a two-sided t-test detects, in standard errors of its estimate.

    See `minimum_detectable_effect` for the formula.
    """
    critical = critical_t(alpha / 2, df)

    def excess_power(noncentrality: float) -> float:
        """The power at a true effect, minus the wanted power: the effect that is sought has 0."""
        return _exceeds(critical, df, noncentrality) - power

    return float(optimize.brentq(excess_power, 0.0, 3 * (critical + 1)))


def _exceeds(critical: float, df: float, noncentrality: float) -> float:
    """P(T > critical) of noncentral t. Where its series fails, this is the mean over the normal part of T.

    P(T > critical) = mean over Z of P(chi^2 < df ((Z + noncentrality) / critical)^2),    Z standard normal
    """
    if critical <= FAR and noncentrality <= LARGE:
        return float(1 - special.nctdtr(df, noncentrality, critical))
    effects = np.maximum(NORMAL + noncentrality, 0.0)
    largest_variances = (effects / critical) ** 2
    return float(SHARES @ stats.chi2.cdf(df * largest_variances, df))


def paired_seeds(margin: float, std_difference: float, alpha: float) -> int | None:
    """The seeds of each arm with which the paired test detects a true difference of the margin.

        smallest n with P(T > t_(1-alpha/2)) >= 0.8,    T noncentral t with n - 1 degrees of freedom
                                                          and noncentrality margin sqrt(n) / std_difference

    The margin is the smallest difference that matters, and was declared before the study. The power at the observed
    difference would only restate p, of which it is a function. The spread of few seeds is itself uncertain: the true
    number is often half or twice this one. None without any spread, or for more than `MOST_SEEDS`.

    Source: Hoenig and Heisey, "The Abuse of Power", The American Statistician 2001.
    """
    if not std_difference > 0:
        return None

    def error_and_df(n: int) -> tuple[float, float]:
        """The standard error of the difference and the degrees of freedom with n seeds."""
        return std_difference / math.sqrt(n), n - 1.0

    return _fewest(margin, alpha, error_and_df)


def welch_seeds(margin: float, std_a: float, std_b: float, alpha: float) -> int | None:
    """The seeds of each arm with which Welch's test detects a true difference of the margin, as `paired_seeds`.

    smallest n with P(T > t_(1-alpha/2)) >= 0.8,    T noncentral t with the df of Welch's test
                                                      and noncentrality margin / sqrt((std_a^2 + std_b^2) / n)
    """
    if not (std_a > 0 or std_b > 0):
        return None

    def error_and_df(n: int) -> tuple[float, float]:
        """The standard error of the difference and the degrees of freedom with n seeds in each arm."""
        a = Summary(n, 0.0, std_a)
        b = Summary(n, 0.0, std_b)
        return error_and_freedom(a, b)

    return _fewest(margin, alpha, error_and_df)


def _fewest(margin: float, alpha: float, error_and_df: Callable[[int], tuple[float, float]]) -> int | None:
    """The fewest seeds that detect a margin with the wanted power; None for more than `MOST_SEEDS`.

    Args:
        margin: the true difference.
        alpha: the level of the two-sided test.
        error_and_df: a function of the number of seeds that returns the standard error and the degrees of freedom.
    """

    def detects(n: int) -> bool:
        """Whether n seeds detect the margin."""
        error, df = error_and_df(n)
        critical = critical_t(alpha / 2, df)
        noncentrality = margin / max(error, margin / FARTHEST)
        return _exceeds(critical, df, noncentrality) >= POWER

    candidates = range(2, MOST_SEEDS + 1)
    needed = 2 + bisect_left(candidates, True, key=detects)
    if needed > MOST_SEEDS:
        return None
    return needed
