"""Statistical power against R's documented outputs, statsmodels and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fairbench.analysis.statistics.power import minimum_detectable_effect, paired_seeds, welch_seeds


@pytest.mark.parametrize(("margin", "alpha"), [(0.3, 0.05), (1.0, 0.05), (1.0, 0.05 / 12), (3.0, 0.01)])
def test_seeds_needed_are_statsmodels_solutions(margin, alpha):
    from statsmodels.stats.power import TTestIndPower, TTestPower  # a second to load

    effect = margin / 2.0
    welch = TTestIndPower().solve_power(effect_size=effect, alpha=alpha, power=0.8)
    paired = TTestPower().solve_power(effect_size=effect, alpha=alpha, power=0.8)
    assert welch_seeds(margin, 2.0, 2.0, alpha) == math.ceil(welch)
    assert paired_seeds(margin, 2.0, alpha) == math.ceil(paired)


@pytest.mark.parametrize("effect", [0.005 / 0.02055, *np.geomspace(0.02, 0.4, 200)])
def test_many_seeds_are_nearly_those_of_the_normal_distribution(effect):
    """SciPy's noncentral t is nan for some large effects that the search meets on its way."""
    normal = ((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / effect) ** 2
    assert normal < paired_seeds(effect, 1.0, 0.05) < normal + 4


def test_this_number_of_seeds_detects_the_margin_and_fewer_do_not():
    """Of paired arms the seeds share an effect of 1.2, so pairs of arms that spread by 1.3 differ by 0.5 sqrt(2)."""
    rng = np.random.default_rng(0)
    studies = 40_000
    paired = paired_seeds(0.5, 0.5 * math.sqrt(2), 0.05)
    welch = welch_seeds(1.0, 0.3, 1.5, 0.05)
    for less, enough in ((0, True), (2, False)):
        shared, own_a, own_b = rng.standard_normal((3, studies, paired - less))
        a = 1.2 * shared + 0.5 * own_a
        b = 1.2 * shared + 0.5 * own_b
        assert detects(stats.ttest_rel(a + 0.5, b, axis=1)) == enough
        a = rng.normal(1.0, 0.3, (studies, welch - less))
        b = rng.normal(0.0, 1.5, (studies, welch - less))
        assert detects(stats.ttest_ind(a, b, axis=1, equal_var=False)) == enough


def detects(test):
    """Whether tests of many studies find the first arm larger in about 80% of them, or more."""
    found = (test.pvalue < 0.05) & (test.statistic > 0)
    return np.mean(found) > 0.795


def test_two_seeds_at_a_strict_level_detect_what_their_standard_deviation_allows():
    # one degree of freedom: 1697 standard errors at 0.05 / 104, by integration over the chi distribution
    effect = minimum_detectable_effect(2, 0.05 / 104, "paired")
    assert effect == pytest.approx(1696.99118 / math.sqrt(2), rel=1e-6)


def test_no_number_of_seeds():
    assert minimum_detectable_effect(1, 0.05, "paired") is None
    assert minimum_detectable_effect(1, 0.05, "welch") is None
    assert welch_seeds(1.0, 0.0, 0.0, 0.05) is None
    assert paired_seeds(1.0, 0.0, 0.05) is None
    assert welch_seeds(1e-3, 1.0, 1.0, 0.05) is None  # millions
    assert paired_seeds(1e-3, 1.0, 0.05) is None
    assert welch_seeds(1e6, 1.0, 1.0, 0.05) == 2
    assert paired_seeds(1e6, 1.0, 0.05) == 2


def test_an_arm_without_spread_is_a_single_sample():
    single = paired_seeds(0.5, 1.0, 0.05)
    assert welch_seeds(0.5, 1.0, 0.0, 0.05) == single
    assert welch_seeds(0.5, 0.0, 1.0, 0.05) == single


def test_minimum_detectable_effect_is_r_power_t_test():
    # R: power.t.test(n = 20, delta = 1, sd = 1) has power 0.8689528; power.t.test(power = .90, delta = 1) n = 22.02110
    assert minimum_detectable_effect(20, 0.05, "welch", 0.8689528) == pytest.approx(1, abs=1e-6)
    assert minimum_detectable_effect(22, 0.05, "welch", 0.90) > 1
    assert minimum_detectable_effect(23, 0.05, "welch", 0.90) < 1


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.05), (5, 0.05 / 12), (20, 0.05)])
def test_minimum_detectable_effect_of_the_paired_test_is_statsmodels(n, alpha):
    from statsmodels.stats.power import TTestPower

    effect = minimum_detectable_effect(n, alpha, "paired")
    power = TTestPower().power(effect, n, alpha, alternative="two-sided")
    assert power == pytest.approx(0.8, abs=1e-4)
    assert paired_seeds(effect * 1.0001, 1.0, alpha) == n


@pytest.mark.parametrize("test", ["paired", "welch"])
@pytest.mark.parametrize(("n", "alpha"), [(2, 0.05), (2, 1e-6), (3, 0.05 / 12), (50, 0.05)])
def test_minimum_detectable_effect_always_exists_from_two_seeds(n, alpha, test):
    effect = minimum_detectable_effect(n, alpha, test)
    assert 0 < effect < math.inf
    assert minimum_detectable_effect(n + 1, alpha, test) < effect
