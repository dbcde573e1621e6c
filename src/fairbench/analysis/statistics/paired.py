"""Comparison of two arms seed by seed: both have the same initial weights and batches in each seed."""

import math
from statistics import correlation, fmean, stdev

from fairbench.analysis.statistics.significance import TTest, Values, t_test

EQUAL_DIFFERENCES = 1e-12
"""Differences that vary by less than this share of the values are equal: subtraction rounds."""


def paired_t(a: Values, b: Values, *, level: float = 0.05) -> TTest:
    """Compare two means by their differences in each seed; the interval covers with 1 - level.

        t = mean(d) / (std(d) / sqrt(n)),    d_i = a_i - b_i,    n - 1 degrees of freedom

    The effect of a seed that both arms share cancels: the higher their correlation over seeds, the more powerful is
    this test compared with Welch's. Without correlation it is less powerful, with half the degrees of freedom.

    Returns:
        The test. p = 1 where no seed differs; no test where all seeds differ equally, or with fewer than 2 seeds.

    Source: Student, "The probable error of a mean", Biometrika 1908.
    """
    differences = [x - y for x, y in zip(a, b, strict=True)]
    mean = fmean(differences)
    if not any(differences):
        return TTest(mean, p=1.0, reason="no seed differs")
    if len(differences) < 2:
        return TTest(mean, reason="fewer than 2 seeds, no test")
    spread = stdev(differences)
    if spread <= EQUAL_DIFFERENCES * max(map(abs, (*a, *b))):
        return TTest(mean, reason="the same difference in every seed, no test")
    return t_test(mean, spread / math.sqrt(len(differences)), len(differences) - 1, level=level)


def seed_correlation(a: Values, b: Values) -> float | None:
    """Pearson's correlation of two arms over the seeds; None for fewer than 3 seeds, and for a constant arm."""
    if len(a) < 3 or len(set(a)) == 1 or len(set(b)) == 1:
        return None
    return correlation(a, b)
