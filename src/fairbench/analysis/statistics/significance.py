"""Comparison of two arms: the paired test, Welch's test, effect size, and Holm's correction.

Welch's test needs only n, mean and standard deviation of each arm, so it tests published numbers too. No function
returns nan: an undefined value is None, and `TTest.reason` says why. Values up to 1e300 may be squared, since they are
first divided by a power of two, which is exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import correlation, fmean, stdev

from scipy import special

Values = Sequence[float]
EQUAL = 1e-12
"""Values that vary by less than this share of their size are equal: computers round."""
ALL_EQUAL = "all values are equal"
NO_VARIANCE = "every seed gives the same value, no test"
SAME_DIFFERENCE = "every pair differs by the same amount, sign test"
LEVEL = 0.05
"""The confidence intervals cover with 1 - LEVEL."""


@dataclass(frozen=True)
class Summary:
    """The number of values, the mean and the standard deviation of a sample (ddof = 1; 0 for a single value)."""

    n: int
    mean: float
    std: float


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample (ddof = 1); None for fewer than two values."""
    if len(values) < 2:
        return None
    return stdev(values)


def summarize(values: Values) -> Summary:
    """The summary of a sample of at least one value."""
    # squares of scaled values do not overflow
    unit = binary_unit(*values)
    scaled = [value / unit for value in values]
    mean = unit * fmean(scaled)
    std = 0.0
    if len(values) > 1:
        std = unit * stdev(scaled)
    return Summary(len(values), mean, std)


def binary_unit(*values: float) -> float:
    """The power of two next to the largest absolute value; division by it is exact."""
    largest = max(map(abs, values))
    _, exponent = math.frexp(largest)
    return 2.0 ** max(exponent, -1000)


@dataclass(frozen=True)
class TTest:
    """A t-test of a difference of means; None where degenerate values define nothing.

    Attributes:
        difference: mean of the first minus mean of the second.
        error: standard error of the difference.
        ci_low, ci_high: the 95% confidence interval of the difference.
        p: two-sided p-value.
        reason: why there is no proper test; empty when there is one.
    """

    difference: float
    error: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    t: float | None = None
    df: float | None = None
    p: float | None = None
    reason: str = ""


def t_test(difference: float, error: float, df: float) -> TTest:
    """The t-test of a difference.

    Args:
        difference: the estimated difference.
        error: its standard error, positive.
        df: the degrees of freedom.
    """
    t = difference / error
    half_width = critical_t(LEVEL / 2, df) * error
    return TTest(
        difference=difference,
        error=error,
        ci_low=difference - half_width,
        ci_high=difference + half_width,
        t=t,
        df=df,
        p=2 * upper_tail(abs(t), df),
    )


def upper_tail(t: float, df: float) -> float:
    """P(T > t) of Student's t distribution.

    `scipy.stats.t.sf` calls the same function after checks that take most of its time.
    """
    return float(special.stdtr(df, -t))


def critical_t(share: float, df: float) -> float:
    """The t that Student's T exceeds with a probability of `share`."""
    return -float(special.stdtrit(df, share))


def no_test_reason(a: Summary, b: Summary) -> str:
    """The reason why Welch's test does not exist for two samples; empty if it does."""
    if min(a.n, b.n) < 2:
        return "fewer than 2 seeds, no test"
    size = max(abs(a.mean), abs(b.mean))
    if max(a.std, b.std) > EQUAL * size:
        return ""
    if a.mean == b.mean:
        return ALL_EQUAL
    return NO_VARIANCE


def welch(a: Summary, b: Summary) -> TTest:
    """Compare two means without assuming equal variances; the interval covers with 95%.

        t = (mean(a) - mean(b)) / sqrt(var(a)/n + var(b)/m)

    Two constant samples have p = 1 when they are equal; when they differ, no variance is known and there is no test.

    Source: Welch, "The generalization of 'Student's' problem when several different population variances are
    involved", Biometrika 1947.
    """
    difference = a.mean - b.mean
    reason = no_test_reason(a, b)
    if reason == ALL_EQUAL:
        return TTest(difference, p=1.0, reason=reason)
    if reason:
        return TTest(difference, reason=reason)
    error, df = error_and_freedom(a, b)
    return t_test(difference, error, df)


def error_and_freedom(a: Summary, b: Summary) -> tuple[float, float]:
    """The standard error of the difference of two means, and its degrees of freedom, by Welch and Satterthwaite.

    sqrt(var(a)/n + var(b)/m),    (var(a)/n + var(b)/m)^2 / ((var(a)/n)^2 / (n - 1) + (var(b)/m)^2 / (m - 1))
    """
    unit = binary_unit(a.std, b.std)
    first = (a.std / unit) ** 2 / a.n
    second = (b.std / unit) ** 2 / b.n
    error = unit * math.sqrt(first + second)
    df = (first + second) ** 2 / (first**2 / (a.n - 1) + second**2 / (b.n - 1))
    return error, df


def hedges_g(a: Summary, b: Summary) -> float | None:
    """The difference of two means in pooled standard deviations, without the bias of small samples.

        g = J(n + m - 2) (mean(a) - mean(b)) / s_pooled,    J(k) = Gamma(k/2) / (sqrt(k/2) Gamma((k-1)/2))

    None for fewer than 2 values in a sample, or no variance in both.

    Source: Hedges, "Distribution theory for Glass's estimator of effect size", J. Educ. Stat. 1981.
    """
    if no_test_reason(a, b):
        return None
    df = a.n + b.n - 2
    log_gammas = special.gammaln(df / 2) - special.gammaln((df - 1) / 2)
    correction = math.exp(log_gammas) / math.sqrt(df / 2)
    unit = binary_unit(a.std, b.std)
    squares_a = (a.n - 1) * (a.std / unit) ** 2
    squares_b = (b.n - 1) * (b.std / unit) ** 2
    pooled = math.sqrt((squares_a + squares_b) / df)
    difference = (a.mean - b.mean) / unit
    return correction * difference / pooled


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct a family of p-values so that the chance of any false rejection stays below alpha.

        p_(k) -> max over j <= k of min(1, (m - j + 1) p_(j)),    m = size of the family

    A missing test is None and stays None. It counts in the family with p = 1: its real p can only be smaller, so a
    claim that holds now still holds when the missing test arrives.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 1979.
    """
    family = len(p_values)
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(known):
        corrected = min(1.0, (family - rank) * p)
        highest = max(highest, corrected)
        adjusted[i] = highest
    return adjusted


def holm_levels(p_values: Sequence[float | None], alpha: float) -> list[float]:
    """The level with which Holm's correction compares each p-value of a family.

        alpha / (m - j + 1) for the j-th smallest, if it is rejected;    alpha / (m - k) for all others

    m is the size of the family, k the number of rejections. A p-value is below its level exactly where its corrected
    p-value is below alpha.

    Args:
        p_values: the p-values; None for a missing test, which is not rejected.
        alpha: the family-wise error rate.
    """
    family = len(p_values)
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    levels: dict[int, float] = {}
    for p, i in known:
        level = alpha / (family - len(levels))
        if p >= level:
            break
        levels[i] = level
    remaining = max(family - len(levels), 1)
    return [levels.get(i, alpha / remaining) for i in range(family)]


def paired_t(a: Values, b: Values) -> TTest:
    """Compare two means by their differences in each seed; the interval covers with 95%.

        t = mean(d) / (std(d) / sqrt(n)),    d_i = a_i - b_i,    n - 1 degrees of freedom

    The effect of a seed that both arms share cancels: the higher their correlation over seeds, the more powerful is
    this test compared with Welch's. Without correlation it is less powerful, with half the degrees of freedom. p = 1
    where no seed differs. Where all seeds differ equally, the sign test gives p, unless each arm has the same value in
    every seed: then the seeds are no more than one. There is no test with fewer than 2 seeds.

    Source: Student, "The probable error of a mean", Biometrika 1908.
    """
    differences = [x - y for x, y in zip(a, b, strict=True)]
    d = summarize(differences)
    if d.n < 2:
        return TTest(d.mean, reason="fewer than 2 seeds, no test")
    if not any(differences):
        return TTest(d.mean, p=1.0, reason="no seed differs")
    size = max(map(abs, (*a, *b)))
    if d.std <= EQUAL * size:
        if summarize(a).std <= EQUAL * size:
            return TTest(d.mean, reason=NO_VARIANCE)
        return TTest(d.mean, p=sign_p(d.n), reason=SAME_DIFFERENCE)
    error = d.std / math.sqrt(d.n)
    return t_test(d.mean, error, d.n - 1)


def sign_p(n: int) -> float:
    """The two-sided p-value of the sign test where all n differences have the same sign: 2 (1/2)^n.

    Without a difference of the two arms, either sign is equally probable in each pair.

    Source: Arbuthnot, "An argument for divine providence", Philosophical Transactions 1710.
    """
    return 2.0 ** (1 - n)


def difference_test(test: str, a: Values, b: Values) -> TTest:
    """The test of a suite, "paired" or "welch", of two arms by the values of the same seeds in the same order."""
    if test == "paired":
        return paired_t(a, b)
    return welch(summarize(a), summarize(b))


def seed_correlation(a: Values, b: Values) -> float | None:
    """Pearson's correlation of two arms over the seeds; None for fewer than 3 seeds, and for a constant arm."""
    if len(a) < 3 or len(set(a)) == 1 or len(set(b)) == 1:
        return None
    return correlation(_scaled(a), _scaled(b))


def _scaled(values: Values) -> Values:
    """The values divided by a power of two, so that their squares do not overflow."""
    unit = binary_unit(*values)
    return [value / unit for value in values]
