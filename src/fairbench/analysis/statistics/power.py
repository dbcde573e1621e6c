"""Statistical power: the effect that n seeds can detect, and the seeds that an effect needs."""

import math
from bisect import bisect_left

from scipy import optimize, stats

from fairbench.analysis.statistics.significance import Summary, critical_t, degrees_of_freedom, standard_error

MOST_SEEDS = 100_000
"""Upper bound of the search; beyond it the number of seeds is None."""


def minimum_detectable_effect(n: int, alpha: float, power: float = 0.8) -> float | None:
    """The true difference, in standard deviations of one arm, that a two-sided t-test of n against n seeds detects.

        P(T > t_(1-alpha/2)) = power,    T noncentral t with df = 2n - 2 and noncentrality d sqrt(n/2)

    A rejection in the wrong direction does not count as a detection.

    Args:
        n: seeds of each arm.
        alpha: level of the test.
        power: probability of detecting the difference.

    Returns:
        d; None for n < 2, where there is no test.

    Source: Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988, chapter 2.
    """
    if n < 2:
        return None
    return detectable_noncentrality(2 * n - 2, alpha, power) * math.sqrt(2 / n)


def detectable_noncentrality(df: int, alpha: float, power: float) -> float:
    """The true effect, in standard errors of its estimate, that a two-sided t-test detects.

        P(T > t_(1-alpha/2)) = power,    T noncentral t with df degrees of freedom

    A rejection in the wrong direction does not count as a detection.
    """
    critical = critical_t(alpha / 2, df)
    return float(optimize.brentq(lambda x: stats.nct.sf(critical, df, x) - power, 0.0, 3 * (critical + 1)))


def seeds_to_detect(margin: float, std_a: float, std_b: float, alpha: float, power: float = 0.8) -> int | None:
    """The seeds of each arm with which Welch's test detects a true difference of the margin, at the observed spread.

        smallest n with P(T > t_(1-alpha/2)) >= power,    T noncentral t with the df of Welch's test
                                                          and noncentrality margin / sqrt((std_a^2 + std_b^2) / n)

    The margin is the smallest difference that matters, and was declared before the study. The power at the observed
    difference would only restate p, of which it is a function. The spread of few seeds is itself uncertain: the true
    number is often half or twice this one.

    Args:
        margin: the difference that must be detected, positive.
        std_a, std_b: standard deviation of each arm.
        alpha: level of the test.
        power: probability of detecting the difference.

    Returns:
        n; None without any spread, or for more than `MOST_SEEDS`.

    Source: Hoenig and Heisey, "The Abuse of Power", The American Statistician 2001.
    """
    if not (std_a > 0 or std_b > 0):
        return None

    def detects(n: int) -> bool:
        a, b = Summary(n, 0.0, std_a), Summary(n, 0.0, std_b)
        df = degrees_of_freedom(a, b)
        return float(stats.nct.sf(critical_t(alpha / 2, df), df, margin / standard_error(a, b))) >= power

    needed = 2 + bisect_left(range(2, MOST_SEEDS + 1), True, key=detects)
    return needed if needed <= MOST_SEEDS else None
