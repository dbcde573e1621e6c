"""The statistics against R's documented outputs, scipy, statsmodels and arithmetic by hand."""

import math
import random

import pytest
from hypothesis import assume, given, strategies
from samples import AFFINE, ARMS, SLEEP_1, SLEEP_2
from scipy import stats
from statsmodels.stats.weightstats import CompareMeans, ttost_ind

from fairbench.analysis.statistics.significance import (
    FAR,
    Summary,
    effect_interval,
    hedges_g,
    holm,
    summary,
    tost,
    welch,
)


def both(a, b):
    return summary(a), summary(b)


def test_welch_is_r_t_test_on_the_sleep_data():
    test = welch(*both(SLEEP_1, SLEEP_2))
    assert test.t == pytest.approx(-1.8608, abs=5e-5)
    assert test.df == pytest.approx(17.776, abs=5e-4)
    assert test.p == pytest.approx(0.07939, abs=5e-6)
    assert (test.ci_low, test.ci_high) == pytest.approx((-3.3654832, 0.2054832), abs=5e-8)
    assert test.difference == pytest.approx(0.75 - 2.33)
    assert test.reason == ""


def test_welch_of_a_summary_is_scipys_and_statsmodels():
    a, b = both(SLEEP_1, SLEEP_2)
    test, reference = welch(a, b), stats.ttest_ind_from_stats(a.mean, a.std, 10, b.mean, b.std, 10, equal_var=False)
    assert (test.t, test.p) == pytest.approx((reference.statistic, reference.pvalue), rel=1e-12)
    interval = CompareMeans.from_data(SLEEP_1, SLEEP_2).tconfint_diff(usevar="unequal")
    assert (test.ci_low, test.ci_high) == pytest.approx(interval, rel=1e-12)


@given(ARMS, AFFINE)
def test_another_unit_of_the_metric_changes_no_p_and_no_effect(arms, unit):
    (factor, shift), (a, b) = unit, both(*arms)
    there = both(*([factor * x + shift for x in arm] for arm in arms))
    assume(a.std > 0 or b.std > 0)
    assert welch(*there).p == pytest.approx(welch(a, b).p, rel=1e-6, abs=1e-9)
    assert abs(hedges_g(*there)) == pytest.approx(abs(hedges_g(a, b)), rel=1e-6, abs=1e-9)
    assert tost(*there, abs(factor) * 0.1) == pytest.approx(tost(a, b, 0.1), rel=1e-6, abs=1e-9)


@given(ARMS)
def test_swapped_arms_are_mirrored(arms):
    a, b = both(*arms)
    one, other = welch(a, b), welch(b, a)
    assert (one.p, one.df, one.difference, one.t or 0) == (other.p, other.df, -other.difference, -(other.t or 0))
    (low, high), mirrored = effect_interval(a, b), effect_interval(b, a)
    if a.mean != b.mean and low is not None:
        assert mirrored == (-high, -low)


def test_welch_by_hand():
    # means 2 and 5, variances 1 and 4, n 3 and 3: se^2 = 5/3, df = (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) = 50/17
    test = welch(*both([1, 2, 3], [3, 5, 7]))
    assert test.t == pytest.approx(-3 / math.sqrt(5 / 3))
    assert test.df == pytest.approx(50 / 17)
    assert test.p == pytest.approx(2 * stats.t.cdf(-3 / math.sqrt(5 / 3), 50 / 17))


def test_welch_swaps_sign_with_its_arguments():
    one, other = welch(*both(SLEEP_1, SLEEP_2)), welch(*both(SLEEP_2, SLEEP_1))
    assert (one.t, one.ci_low, one.ci_high) == pytest.approx((-other.t, -other.ci_high, -other.ci_low))


def test_identical_samples():
    test = welch(*both(SLEEP_1, SLEEP_1))
    assert (test.difference, test.t, test.p) == (0, 0, 1)
    assert hedges_g(*both(SLEEP_1, SLEEP_1)) == 0


def test_constant_and_equal_is_p_1_without_a_statistic():
    test = welch(*both([0.1] * 3, [0.1] * 3))  # numpy's variance of [0.1] * 3 is not 0
    assert (test.p, test.t, test.df, test.ci_low) == (1, None, None, None)
    assert test.reason == "all values are equal"
    assert hedges_g(*both([0.1] * 3, [0.1] * 3)) is None
    assert tost(*both([0.1] * 3, [0.1] * 3), 1) is None


def test_constant_and_different_is_no_test():
    test = welch(*both([0.1] * 3, [0.2] * 3))
    assert test.p is None
    assert "no variance" in test.reason
    assert hedges_g(*both([0.1] * 3, [0.2] * 3)) is None
    assert tost(*both([0.1] * 3, [0.2] * 3), 1) is None


def test_one_constant_arm_is_a_one_sample_test():
    test, reference = welch(*both([0.1] * 4, [0.1, 0.2, 0.4, 0.3])), stats.ttest_1samp([0.1, 0.2, 0.4, 0.3], 0.1)
    assert (test.t, test.df, test.p) == pytest.approx((-reference.statistic, 3, reference.pvalue))


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0, 3.0]), ([1.0, 2.0], [3.0]), ([1.0], [1.0])])
def test_fewer_than_two_seeds_is_no_test(a, b):
    test = welch(*both(a, b))
    assert test.p is None
    assert "fewer than 2 seeds" in test.reason
    assert hedges_g(*both(a, b)) is None
    assert tost(*both(a, b), 1) is None


def test_hedges_g_by_hand():
    # difference -3, pooled variance 2.5; J(4) = Gamma(2) / (sqrt(2) Gamma(1.5)) = 2 / sqrt(2 pi)
    assert hedges_g(*both([1, 2, 3], [3, 5, 7])) == pytest.approx(2 / math.sqrt(2 * math.pi) * -3 / math.sqrt(2.5))


def test_hedges_g_is_close_to_the_usual_approximation():
    d = (0.75 - 2.33) / math.sqrt((stats.tvar(SLEEP_1) + stats.tvar(SLEEP_2)) / 2)
    assert hedges_g(*both(SLEEP_1, SLEEP_2)) == pytest.approx(d * (1 - 3 / (4 * 18 - 1)), rel=1e-3)


def test_the_interval_of_the_effect_is_that_of_mbess():
    # R, MBESS: conf.limits.nct(ncp = 2.83, df = 126) gives 0.8337502 and 4.8153588: here 64 against 64 with t = 2.83
    unit = math.sqrt(2 / 64)
    interval = effect_interval(Summary(64, 2.83 * unit, 1.0), Summary(64, 0.0, 1.0))
    assert interval == pytest.approx((0.8337502 * unit, 4.8153588 * unit), abs=1e-7)


def test_the_interval_of_the_effect_covers_it():
    rng, covered = random.Random(3), 0
    for _ in range(300):
        samples = [rng.gauss(1.5, 1) for _ in range(4)], [rng.gauss(0, 1) for _ in range(4)]
        low, high = effect_interval(*both(*samples))
        assert low < hedges_g(*both(*samples)) < high
        covered += low <= 1.5 <= high
    assert covered / 300 == pytest.approx(0.95, abs=0.04)


def test_the_interval_of_a_huge_effect_goes_on_where_noncentral_t_ends():
    near, far = (effect_interval(Summary(3, FAR * x, 1.0), Summary(3, 0.0, 1.0)) for x in (0.816, 0.817))
    assert far == pytest.approx([x * 0.817 / 0.816 for x in near], rel=1e-3)
    assert all(map(math.isfinite, effect_interval(Summary(3, 1.0, 1e-12), Summary(3, 0.0, 1e-12))))


@pytest.mark.parametrize("margin", [0.5, 1.58, 5.0])
def test_tost_is_the_larger_of_two_one_sided_tests(margin):
    test = welch(*both(SLEEP_1, SLEEP_2))
    se = test.difference / test.t
    by_hand = max(
        stats.t.sf((test.difference + margin) / se, test.df), stats.t.cdf((test.difference - margin) / se, test.df)
    )
    assert tost(*both(SLEEP_1, SLEEP_2), margin) == pytest.approx(by_hand)
    assert by_hand == pytest.approx(ttost_ind(SLEEP_1, SLEEP_2, -margin, margin, usevar="unequal")[0])


def test_tost_rejects_just_when_the_90_percent_interval_lies_within_the_margin():
    interval = stats.ttest_ind(SLEEP_1, SLEEP_2, equal_var=False).confidence_interval(0.90)
    edge = max(-interval.low, interval.high)
    assert tost(*both(SLEEP_1, SLEEP_2), edge * 1.001) < 0.05 < tost(*both(SLEEP_1, SLEEP_2), edge * 0.999)


def test_holm_is_r_p_adjust():
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm"), in any order
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.05, 0.01, 0.04, 0.02, 0.03]) == pytest.approx([0.09, 0.05, 0.09, 0.08, 0.09])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([]) == []


P_VALUES = strategies.lists(strategies.none() | strategies.floats(0, 1), min_size=1, max_size=8)


@given(P_VALUES)
def test_holm_corrects_upwards_and_keeps_the_order(family):
    pairs = [(p, adjusted) for p, adjusted in zip(family, holm(family), strict=True) if p is not None]
    assert all(p <= adjusted <= 1 for p, adjusted in pairs)
    assert all(one[1] <= other[1] for one in pairs for other in pairs if one[0] <= other[0])


@given(P_VALUES, strategies.integers(0, 7), strategies.floats(0, 1))
def test_a_smaller_p_makes_no_other_one_larger(family, index, smaller):
    index %= len(family)
    assume(family[index] is None or smaller <= family[index])
    after = holm([*family[:index], smaller, *family[index + 1 :]])
    assert all(b <= a for a, b in zip(holm(family), after, strict=True) if a is not None)


def test_holm_counts_missing_tests():
    # R: p.adjust(c(0.01, 0.02), "holm", n = 4)
    assert holm([None, 0.01, None, 0.02]) == [None, pytest.approx(0.04), None, pytest.approx(0.06)]


def test_a_claim_survives_the_tests_that_are_still_missing():
    before = holm([0.01, None, 0.2])
    for late in (0.0001, 0.01, 0.5, 1.0):
        assert holm([0.01, late, 0.2])[0] <= before[0]


def test_type_1_error():
    rng = random.Random(1)
    samples = [[rng.gauss(0, 1) for _ in range(5)] + [rng.gauss(0, 3) for _ in range(5)] for _ in range(1000)]
    rejected = sum(welch(*both(s[:5], s[5:])).p < 0.05 for s in samples)
    assert 0.03 < rejected / 1000 < 0.07


def test_family_wise_error_after_holm():
    rng = random.Random(2)

    def family():
        samples = [[rng.gauss(0, 1) for _ in range(10)] for _ in range(6)]
        return holm([welch(*both(s[:5], s[5:])).p for s in samples])

    assert sum(min(family()) < 0.05 for _ in range(200)) / 200 < 0.09
