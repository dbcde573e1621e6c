"""Statistical power against R's documented outputs, statsmodels and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fairbench.analysis.statistics.power import minimum_detectable_effect, paired_seeds, welch_seeds


@pytest.mark.parametrize(("margin", "alpha"), [(0.3, 0.05), (1.0, 0.05), (1.0, 0.05 / 12), (3.0, 0.01)])
def test_seeds_needed_are_statsmodels_solutions(margin, alpha):
    from statsmodels.stats.power import TTestIndPower, TTestPower  # a second to load

    for solver, found in (
        (TTestIndPower, welch_seeds(margin, 2.0, 2.0, alpha)),
        (TTestPower, paired_seeds(margin, 2.0, alpha)),
    ):
        assert found == math.ceil(solver().solve_power(effect_size=margin / 2.0, alpha=alpha, power=0.8))


def test_this_number_of_seeds_detects_the_margin_and_fewer_do_not():
    """Of paired arms the seeds share an effect of 1.2, so pairs of arms that spread by 1.3 differ by 0.5 sqrt(2)."""
    rng = np.random.default_rng(0)
    paired, welch = paired_seeds(0.5, 0.5 * math.sqrt(2), 0.05), welch_seeds(1.0, 0.3, 1.5, 0.05)
    for less, enough in ((0, True), (2, False)):
        shared, *own = rng.standard_normal((3, 40_000, paired - less))
        a, b = (1.2 * shared + 0.5 * x for x in own)
        test = stats.ttest_rel(a + 0.5, b, axis=1)
        assert (np.mean((test.pvalue < 0.05) & (test.statistic > 0)) > 0.795) == enough
        a, b = rng.normal(1.0, 0.3, (40_000, welch - less)), rng.normal(0.0, 1.5, (40_000, welch - less))
        test = stats.ttest_ind(a, b, axis=1, equal_var=False)
        assert (np.mean((test.pvalue < 0.05) & (test.statistic > 0)) > 0.795) == enough


def test_two_seeds_at_a_strict_level_detect_what_their_standard_deviation_allows():
    # one degree of freedom: 1697 standard errors at 0.05 / 104, by integration over the chi distribution
    assert minimum_detectable_effect(2, 0.05 / 104, "paired") == pytest.approx(1696.99118 / math.sqrt(2), rel=1e-6)


def test_no_number_of_seeds():
    assert minimum_detectable_effect(1, 0.05, "paired") is minimum_detectable_effect(1, 0.05, "welch") is None
    assert welch_seeds(1.0, 0.0, 0.0, 0.05) is paired_seeds(1.0, 0.0, 0.05) is None
    assert welch_seeds(1e-3, 1.0, 1.0, 0.05) is paired_seeds(1e-3, 1.0, 0.05) is None  # millions
    assert welch_seeds(1e6, 1.0, 1.0, 0.05) == paired_seeds(1e6, 1.0, 0.05) == 2
    assert welch_seeds(0.5, 1.0, 0.0, 0.05) == welch_seeds(0.5, 0.0, 1.0, 0.05) == paired_seeds(0.5, 1.0, 0.05)


def test_minimum_detectable_effect_is_r_power_t_test():
    # R: power.t.test(n = 20, delta = 1, sd = 1) has power 0.8689528; power.t.test(power = .90, delta = 1) n = 22.02110
    assert minimum_detectable_effect(20, 0.05, "welch", 0.8689528) == pytest.approx(1, abs=1e-6)
    assert minimum_detectable_effect(22, 0.05, "welch", 0.90) > 1 > minimum_detectable_effect(23, 0.05, "welch", 0.90)


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.05), (5, 0.05 / 12), (20, 0.05)])
def test_minimum_detectable_effect_of_the_paired_test_is_statsmodels(n, alpha):
    from statsmodels.stats.power import TTestPower

    effect = minimum_detectable_effect(n, alpha, "paired")
    assert TTestPower().power(effect, n, alpha, alternative="two-sided") == pytest.approx(0.8, abs=1e-4)
    assert paired_seeds(effect * 1.0001, 1.0, alpha) == n


@pytest.mark.parametrize("test", ["paired", "welch"])
@pytest.mark.parametrize(("n", "alpha"), [(2, 0.05), (2, 1e-6), (3, 0.05 / 12), (50, 0.05)])
def test_minimum_detectable_effect_always_exists_from_two_seeds(n, alpha, test):
    assert 0 < minimum_detectable_effect(n, alpha, test) < math.inf
    assert minimum_detectable_effect(n + 1, alpha, test) < minimum_detectable_effect(n, alpha, test)
