"""The tests of two arms against R's documented outputs, scipy, statsmodels and arithmetic by hand."""

import math
from importlib import import_module
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, strategies
from samples import AFFINE, ARMS, SLEEP_1, SLEEP_2
from scipy import stats

from fairbench.analysis.comparison.judge import judge
from fairbench.analysis.comparison.two_arms import of_values
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.significance import (
    difference_test,
    hedges_g,
    holm,
    paired_t,
    seed_correlation,
    summarize,
    welch,
)


def both(a, b):
    """The summaries of two arms."""
    return summarize(a), summarize(b)


def equivalence_p(test, margin, a, b):
    """The p-value that two arms differ by less than a margin."""
    comparison = Comparison("mine", "accuracy", "max", "A", "B", margin=margin, seeds=len(a), test=test)
    (judged,) = judge([of_values(comparison, a, b)], 0.05)
    return judged.p_equivalence


def in_unit(arms, unit):
    """The arms in another unit of the metric."""
    factor, shift = unit
    return [[factor * x + shift for x in arm] for arm in arms]


@given(ARMS, AFFINE)
def test_no_p_depends_on_the_unit_of_the_metric(arms, unit):
    there = in_unit(arms, unit)
    a, b = both(*arms)
    assume(a.std > 0 or b.std > 0)
    factor, _ = unit
    for name in ("paired", "welch"):
        one = difference_test(name, *arms)
        other = difference_test(name, *there)
        assert_equal(other.p, one.p)
        ours = equivalence_p(name, 0.1, *arms)
        theirs = equivalence_p(name, abs(factor) * 0.1, *there)
        assert_equal(theirs, ours)
    assert_equal(abs(hedges_g(*both(*there))), abs(hedges_g(a, b)))


def assert_equal(value, expected):
    """Compare two numbers, or that both are unknown."""
    if expected is None:
        assert value is None
    else:
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ["paired", "welch"])
@given(ARMS)
def test_swapped_arms_are_mirrored(name, arms):
    a, b = arms
    one = difference_test(name, a, b)
    other = difference_test(name, b, a)
    assert one.p == other.p
    assert one.df == other.df
    assert one.difference == -other.difference
    if one.t is None:
        assert other.t is None
    else:
        assert one.t == -other.t
        assert one.ci_low == pytest.approx(-other.ci_high)
        assert one.ci_high == pytest.approx(-other.ci_low)


def test_welch_is_r_t_test_on_the_sleep_data():
    test = welch(*both(SLEEP_1, SLEEP_2))
    assert test.t == pytest.approx(-1.8608, abs=5e-5)
    assert test.df == pytest.approx(17.776, abs=5e-4)
    assert test.p == pytest.approx(0.07939, abs=5e-6)
    assert (test.ci_low, test.ci_high) == pytest.approx((-3.3654832, 0.2054832), abs=5e-8)
    assert (test.difference, test.reason) == (pytest.approx(0.75 - 2.33), "")


@pytest.mark.parametrize(
    ("a", "b", "p", "reason"),
    [
        ([0.1] * 3, [0.1] * 3, 1, "all values are equal"),  # numpy's variance of [0.1] * 3 is not 0
        ([0.1] * 3, [0.2] * 3, None, "every seed gives the same value, no test"),
        ([1.0], [2.0, 3.0], None, "fewer than 2 seeds, no test"),
        ([1.0, 2.0], [3.0], None, "fewer than 2 seeds, no test"),
        ([1.0], [1.0], None, "fewer than 2 seeds, no test"),
    ],
)
def test_degenerate_arms_have_no_statistics(a, b, p, reason):
    test = welch(*both(a, b))
    assert (test.p, test.t, test.df, test.ci_low, test.reason) == (p, None, None, None, reason)
    assert hedges_g(*both(a, b)) is None


def test_one_constant_arm_is_a_one_sample_test():
    values = [0.1, 0.2, 0.4, 0.3]
    test = welch(*both([0.1] * 4, values))
    reference = stats.ttest_1samp(values, 0.1)
    assert test.t == pytest.approx(-reference.statistic)
    assert test.df == pytest.approx(3)
    assert test.p == pytest.approx(reference.pvalue)


def test_hedges_g_by_hand():
    # difference -3, pooled variance 2.5; J(4) = Gamma(2) / (sqrt(2) Gamma(1.5)) = 2 / sqrt(2 pi)
    without_correction = -3 / math.sqrt(2.5)
    correction = 2 / math.sqrt(2 * math.pi)
    assert hedges_g(*both([1, 2, 3], [3, 5, 7])) == pytest.approx(correction * without_correction)
    assert hedges_g(*both(SLEEP_1, SLEEP_1)) == 0


@pytest.mark.parametrize("margin", [0.5, 1.58, 5.0])
def test_equivalence_is_the_larger_of_two_one_sided_tests(margin):
    weightstats = import_module("statsmodels.stats.weightstats")  # a second to load
    test = welch(*both(SLEEP_1, SLEEP_2))
    error = test.difference / test.t
    above = stats.t.sf((test.difference + margin) / error, test.df)
    below = stats.t.cdf((test.difference - margin) / error, test.df)
    by_hand = max(above, below)
    assert equivalence_p("welch", margin, SLEEP_1, SLEEP_2) == pytest.approx(by_hand)
    p, *_ = weightstats.ttost_ind(SLEEP_1, SLEEP_2, -margin, margin, usevar="unequal")
    assert by_hand == pytest.approx(p)


@pytest.mark.parametrize("margin", [0.5, 1.58, 5.0])
def test_equivalence_of_pairs_is_the_larger_of_two_one_sided_tests(margin):
    weightstats = import_module("statsmodels.stats.weightstats")
    a = np.array(SLEEP_1)
    b = np.array(SLEEP_2)
    paired = equivalence_p("paired", margin, SLEEP_1, SLEEP_2)
    above = stats.ttest_rel(a, b - margin, alternative="greater").pvalue
    below = stats.ttest_rel(a, b + margin, alternative="less").pvalue
    assert paired == pytest.approx(max(above, below))
    p, *_ = weightstats.ttost_paired(a, b, -margin, margin)
    assert paired == pytest.approx(p)


def test_the_paired_test_is_r_t_test_on_the_sleep_data():
    # R: t.test(extra ~ group, data = sleep, paired = TRUE), the data of Student's own example
    test = paired_t(SLEEP_1, SLEEP_2)
    assert test.t == pytest.approx(-4.0621, abs=5e-5)
    assert (test.df, test.p) == (9, pytest.approx(0.002833, abs=5e-7))
    assert (test.ci_low, test.ci_high) == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)


@given(ARMS)
def test_the_paired_test_is_scipys(arms):
    test = paired_t(*arms)
    if test.t is not None:
        assert (test.t, test.p) == pytest.approx(tuple(stats.ttest_rel(*arms)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "p", "reason"),
    [
        ([0.5, 0.6, 0.7], [0.5, 0.6, 0.7], 1, "no seed differs"),
        (
            [0.5, 0.6, 0.7],
            [0.4, 0.5, 0.6],
            0.25,
            "every pair differs by the same amount, sign test",
        ),  # but for rounding
        ([0.5] * 8, [0.4] * 8, None, "every seed gives the same value, no test"),
        ([0.5], [0.4], None, "fewer than 2 seeds, no test"),
        ([0.5], [0.5], None, "fewer than 2 seeds, no test"),
    ],
)
def test_degenerate_differences(a, b, p, reason):
    test = paired_t(a, b)
    assert (test.p, test.reason, test.t) == (p, reason, None)


def test_small_values_and_two_seeds_have_a_paired_test():
    small = paired_t([5e-9, 6e-9, 8e-9], [4e-9, 5e-9, 6e-9])
    two = paired_t([1.0, 3.0], [0.0, 1.0])
    assert 0 < small.p < two.p < 1


def test_the_correlation_of_the_sleep_data():
    assert seed_correlation(SLEEP_1, SLEEP_2) == pytest.approx(0.7951702, abs=5e-8)
    assert seed_correlation([0.5, 0.5, 0.5], [0.1, 0.2, 0.3]) is None
    assert seed_correlation([0.5, 0.6], [0.1, 0.2]) is None
    assert seed_correlation([1, 2, 3], [1, 1, 2]) == pytest.approx(0.75**0.5)


def test_holm_is_r_p_adjust():
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm"), in any order; p.adjust(c(0.01, 0.02), "holm", n = 4)
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.05, 0.01, 0.04, 0.02, 0.03]) == pytest.approx([0.09, 0.05, 0.09, 0.08, 0.09])
    assert (holm([0.5, 0.6]), holm([])) == ([1, 1], [])
    assert holm([None, 0.01, None, 0.02]) == [None, pytest.approx(0.04), None, pytest.approx(0.06)]


P_VALUES = strategies.lists(strategies.none() | strategies.floats(0, 1), min_size=1, max_size=8)


@given(P_VALUES)
def test_holm_corrects_upwards_and_keeps_the_order(family):
    pairs = [(p, adjusted) for p, adjusted in zip(family, holm(family), strict=True) if p is not None]
    for p, adjusted in pairs:
        assert p <= adjusted <= 1
    for (p, adjusted), (larger, adjusted_larger) in product(pairs, pairs):
        if p <= larger:
            assert adjusted <= adjusted_larger


@given(P_VALUES, strategies.integers(0, 7), strategies.floats(0, 1))
def test_a_smaller_p_makes_no_other_one_larger(family, index, smaller):
    """A missing test has no smaller p than it will have: a claim survives the tests that are still missing."""
    index %= len(family)
    assume(family[index] is None or smaller <= family[index])
    changed = [*family]
    changed[index] = smaller
    for before, after in zip(holm(family), holm(changed), strict=True):
        if before is not None:
            assert after <= before
