"""Two arms against each other: Welch's test, effect size, equivalence, Holm's correction, and what n seeds can find.

Nothing here returns nan: what cannot be computed is None, and `Welch.reason` says why.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Literal

from scipy import optimize, special, stats

Values = Sequence[float]


@dataclass(frozen=True)
class Welch:
    """Welch's t-test of two samples; None stands for what their degenerate values do not define.

    Attributes:
        difference: mean of the first minus mean of the second.
        ci_low: lower end of the 95% confidence interval of the difference.
        ci_high: its upper end.
        t: the statistic.
        df: Welch-Satterthwaite degrees of freedom.
        p: two-sided p-value.
        reason: why there is no proper test, empty when there is one.
    """

    difference: float
    ci_low: float | None = None
    ci_high: float | None = None
    t: float | None = None
    df: float | None = None
    p: float | None = None
    reason: str = ""


def no_test_reason(a: Values, b: Values) -> str:
    """Why Welch's test does not exist for two samples, empty when it does."""
    if min(len(a), len(b)) < 2:
        return "fewer than 2 seeds, no test"
    if max(a) > min(a) or max(b) > min(b):
        return ""
    return "all values are equal" if a[0] == b[0] else "no variance in either arm, no test"


def welch(a: Values, b: Values) -> Welch:
    """Compare two means without assuming equal variances.

        t = (mean(a) - mean(b)) / sqrt(var(a)/n + var(b)/m)

    Two constant samples have p = 1 when they are equal; when they differ, no variance is known and there is no test.

    Args:
        a: one sample, at least 1 value.
        b: the other, at least 1 value.

    Returns:
        The test, from `scipy.stats.ttest_ind`.

    Source: Welch, "The generalization of 'Student's' problem when several different population variances are
    involved", Biometrika 1947.
    """
    difference = fmean(a) - fmean(b)
    if reason := no_test_reason(a, b):
        return Welch(difference, p=1.0 if reason == "all values are equal" else None, reason=reason)
    test = _ttest(a, b)
    interval = test.confidence_interval(0.95)
    return Welch(
        difference,
        ci_low=float(interval.low),
        ci_high=float(interval.high),
        t=float(test.statistic),
        df=float(test.df),
        p=float(test.pvalue),
    )


def tost(a: Values, b: Values, margin: float) -> float | None:
    """Test that two means differ by less than a margin: two one-sided Welch tests.

    Args:
        a: one sample.
        b: the other.
        margin: the largest difference that does not matter, positive.

    Returns:
        The larger of the two p-values; None where Welch's test does not exist.

    Source: Schuirmann, "A comparison of the two one-sided tests procedure ...", J. Pharmacokinet. Biopharm. 1987.
    """
    if no_test_reason(a, b):
        return None
    above = _ttest([x + margin for x in a], b, "greater").pvalue
    below = _ttest([x - margin for x in a], b, "less").pvalue
    return float(max(above, below))


def _ttest(a: Values, b: Values, alternative: Literal["two-sided", "greater", "less"] = "two-sided"):  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():  # scipy warns when one arm is constant, which is no trouble for Welch
        warnings.simplefilter("ignore", RuntimeWarning)
        return stats.ttest_ind(a, b, equal_var=False, alternative=alternative)


def hedges_g(a: Values, b: Values) -> float | None:
    """The difference of two means in pooled standard deviations, without the bias of small samples.

        g = J(n + m - 2) (mean(a) - mean(b)) / s_pooled,    J(k) = Gamma(k/2) / (sqrt(k/2) Gamma((k-1)/2))

    Args:
        a: one sample.
        b: the other.

    Returns:
        The effect size; None for fewer than 2 values in a sample, or no variance in both.

    Source: Hedges, "Distribution theory for Glass's estimator of effect size", J. Educ. Stat. 1981.
    """
    if no_test_reason(a, b):
        return None
    df = len(a) + len(b) - 2
    pooled = ((len(a) - 1) * variance(a) + (len(b) - 1) * variance(b)) / df
    correction = math.exp(special.gammaln(df / 2) - special.gammaln((df - 1) / 2)) / math.sqrt(df / 2)
    return correction * (fmean(a) - fmean(b)) / math.sqrt(pooled)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct a family of p-values so that the chance of any false rejection stays below alpha.

        p_(k) -> max over j <= k of min(1, (m - j + 1) p_(j)),    m = size of the family

    A test that is missing counts as one of the family with p = 1: a claim that holds now still holds when the
    missing test arrives.

    Args:
        p_values: the family, None for a missing test.

    Returns:
        The adjusted p-values in the same order, None where there was none.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 1979.
    """
    adjusted: list[float | None] = [None] * len(p_values)
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    highest = 0.0
    for rank, (p, i) in enumerate(known):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p))
        adjusted[i] = highest
    return adjusted


def minimum_detectable_effect(n: int, alpha: float, power: float = 0.8) -> float | None:
    """The true difference, in standard deviations of one arm, that a two-sided t-test of n against n seeds finds.

        P(T > t_(1-alpha/2)) = power,    T noncentral t with df = 2n - 2 and noncentrality d sqrt(n/2)

    A rejection in the wrong direction is no find.

    Args:
        n: seeds of each arm.
        alpha: level of the test.
        power: chance of finding the difference.

    Returns:
        d; None when n < 2: there is no test, so alpha cannot be reached whatever the difference.

    Source: Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988, chapter 2.
    """
    if n < 2:
        return None
    df = 2 * n - 2
    critical = stats.t.isf(alpha / 2, df)

    def shortfall(d: float) -> float:
        return float(stats.nct.sf(critical, df, d * math.sqrt(n / 2))) - power

    enough = (critical + 1) * math.sqrt(2 / n) * 3
    return float(optimize.brentq(shortfall, 0.0, enough))
