"""The statistics against R's documented outputs, scipy and arithmetic by hand."""

import math
import random

import pytest
from scipy import stats

from fairbench.analysis.significance import hedges_g, holm, minimum_detectable_effect, tost, welch

# R: data(sleep); t.test(extra ~ group, data = sleep)
SLEEP_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_welch_is_r_t_test_on_the_sleep_data():
    test = welch(SLEEP_1, SLEEP_2)
    assert test.t == pytest.approx(-1.8608, abs=5e-5)
    assert test.df == pytest.approx(17.776, abs=5e-4)
    assert test.p == pytest.approx(0.07939, abs=5e-6)
    assert (test.ci_low, test.ci_high) == pytest.approx((-3.3654832, 0.2054832), abs=5e-8)
    assert test.difference == pytest.approx(0.75 - 2.33)
    assert test.reason == ""


def test_welch_by_hand():
    # means 2 and 5, variances 1 and 4, n 3 and 3: se^2 = 5/3, df = (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) = 50/17
    test = welch([1, 2, 3], [3, 5, 7])
    assert test.t == pytest.approx(-3 / math.sqrt(5 / 3))
    assert test.df == pytest.approx(50 / 17)
    assert test.p == pytest.approx(2 * stats.t.cdf(-3 / math.sqrt(5 / 3), 50 / 17))


def test_welch_swaps_sign_with_its_arguments():
    one, other = welch(SLEEP_1, SLEEP_2), welch(SLEEP_2, SLEEP_1)
    assert (one.t, one.ci_low, one.ci_high) == pytest.approx((-other.t, -other.ci_high, -other.ci_low))


def test_identical_samples():
    test = welch(SLEEP_1, SLEEP_1)
    assert (test.difference, test.t, test.p) == (0, 0, 1)
    assert hedges_g(SLEEP_1, SLEEP_1) == 0


def test_constant_and_equal_is_p_1_without_a_statistic():
    test = welch([0.1] * 3, [0.1] * 3)  # numpy's variance of [0.1] * 3 is not 0
    assert (test.p, test.t, test.df, test.ci_low) == (1, None, None, None)
    assert test.reason == "all values are equal"
    assert hedges_g([0.1] * 3, [0.1] * 3) is None
    assert tost([0.1] * 3, [0.1] * 3, 1) is None


def test_constant_and_different_is_no_test():
    test = welch([0.1] * 3, [0.2] * 3)
    assert test.p is None
    assert "no variance" in test.reason
    assert hedges_g([0.1] * 3, [0.2] * 3) is None
    assert tost([0.1] * 3, [0.2] * 3, 1) is None


def test_one_constant_arm_is_a_one_sample_test():
    test, reference = welch([0.1] * 4, [0.1, 0.2, 0.4, 0.3]), stats.ttest_1samp([0.1, 0.2, 0.4, 0.3], 0.1)
    assert (test.t, test.df, test.p) == pytest.approx((-reference.statistic, 3, reference.pvalue))


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0, 3.0]), ([1.0, 2.0], [3.0]), ([1.0], [1.0])])
def test_fewer_than_two_seeds_is_no_test(a, b):
    test = welch(a, b)
    assert test.p is None
    assert "fewer than 2 seeds" in test.reason
    assert hedges_g(a, b) is None
    assert tost(a, b, 1) is None


def test_hedges_g_by_hand():
    # difference -3, pooled variance 2.5; J(4) = Gamma(2) / (sqrt(2) Gamma(1.5)) = 2 / sqrt(2 pi)
    assert hedges_g([1, 2, 3], [3, 5, 7]) == pytest.approx(2 / math.sqrt(2 * math.pi) * -3 / math.sqrt(2.5))


def test_hedges_g_is_close_to_the_usual_approximation():
    d = (0.75 - 2.33) / math.sqrt((stats.tvar(SLEEP_1) + stats.tvar(SLEEP_2)) / 2)
    assert hedges_g(SLEEP_1, SLEEP_2) == pytest.approx(d * (1 - 3 / (4 * 18 - 1)), rel=1e-3)


@pytest.mark.parametrize("margin", [0.5, 1.58, 5.0])
def test_tost_is_the_larger_of_two_one_sided_tests(margin):
    test = welch(SLEEP_1, SLEEP_2)
    se = test.difference / test.t
    by_hand = max(
        stats.t.sf((test.difference + margin) / se, test.df), stats.t.cdf((test.difference - margin) / se, test.df)
    )
    assert tost(SLEEP_1, SLEEP_2, margin) == pytest.approx(by_hand)


def test_tost_rejects_just_when_the_90_percent_interval_lies_within_the_margin():
    interval = stats.ttest_ind(SLEEP_1, SLEEP_2, equal_var=False).confidence_interval(0.90)
    edge = max(-interval.low, interval.high)
    assert tost(SLEEP_1, SLEEP_2, edge * 1.001) < 0.05 < tost(SLEEP_1, SLEEP_2, edge * 0.999)


def test_holm_is_r_p_adjust():
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm"), in any order
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.05, 0.01, 0.04, 0.02, 0.03]) == pytest.approx([0.09, 0.05, 0.09, 0.08, 0.09])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([]) == []


def test_holm_counts_missing_tests():
    # R: p.adjust(c(0.01, 0.02), "holm", n = 4)
    assert holm([None, 0.01, None, 0.02]) == [None, pytest.approx(0.04), None, pytest.approx(0.06)]


def test_a_claim_survives_the_tests_that_are_still_missing():
    before = holm([0.01, None, 0.2])
    for late in (0.0001, 0.01, 0.5, 1.0):
        assert holm([0.01, late, 0.2])[0] <= before[0]


def test_minimum_detectable_effect_is_r_power_t_test():
    # R: power.t.test(n = 20, delta = 1, sd = 1) has power 0.8689528; power.t.test(power = .90, delta = 1) n = 22.02110
    assert minimum_detectable_effect(20, 0.05, 0.8689528) == pytest.approx(1, abs=1e-6)
    assert minimum_detectable_effect(22, 0.05, 0.90) > 1 > minimum_detectable_effect(23, 0.05, 0.90)


def test_minimum_detectable_effect_has_its_power():
    rng = random.Random(0)
    d, found = minimum_detectable_effect(5, 0.05), 0
    for _ in range(400):
        a, b = [rng.gauss(d, 1) for _ in range(5)], [rng.gauss(0, 1) for _ in range(5)]
        found += stats.ttest_ind(a, b).pvalue < 0.05
    assert found / 400 == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.05), (2, 1e-6), (3, 0.05 / 12), (50, 0.05)])
def test_minimum_detectable_effect_always_exists_from_two_seeds(n, alpha):
    assert 0 < minimum_detectable_effect(n, alpha) < math.inf
    assert minimum_detectable_effect(n + 1, alpha) < minimum_detectable_effect(n, alpha)


def test_alpha_cannot_be_reached_with_one_seed():
    assert minimum_detectable_effect(1, 0.05) is None


def test_type_1_error():
    rng = random.Random(1)
    samples = [[rng.gauss(0, 1) for _ in range(5)] + [rng.gauss(0, 3) for _ in range(5)] for _ in range(1000)]
    rejected = sum(welch(s[:5], s[5:]).p < 0.05 for s in samples)
    assert 0.03 < rejected / 1000 < 0.07


def test_family_wise_error_after_holm():
    rng = random.Random(2)

    def family():
        samples = [[rng.gauss(0, 1) for _ in range(10)] for _ in range(6)]
        return holm([welch(s[:5], s[5:]).p for s in samples])

    assert sum(min(family()) < 0.05 for _ in range(200)) / 200 < 0.09
