"""Statistical power against R's documented outputs, statsmodels and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fairbench.analysis.statistics.power import minimum_detectable_effect, seeds_to_detect


@pytest.mark.parametrize(("margin", "alpha"), [(0.3, 0.05), (1.0, 0.05), (1.0, 0.05 / 12), (3.0, 0.01)])
def test_seeds_needed_is_statsmodels_solution(margin, alpha):
    from statsmodels.stats.power import TTestIndPower  # a second to load

    solved = TTestIndPower().solve_power(effect_size=margin / 2.0, alpha=alpha, power=0.8)
    assert seeds_to_detect(margin, 2.0, 2.0, alpha) == math.ceil(solved)


def test_this_number_of_seeds_detects_the_margin_and_fewer_do_not():
    needed = seeds_to_detect(1.0, 0.3, 1.5, 0.05)
    rng = np.random.default_rng(0)
    for n, enough in ((needed, True), (needed - 2, False)):
        a, b = rng.normal(1.0, 0.3, (40_000, n)), rng.normal(0.0, 1.5, (40_000, n))
        test = stats.ttest_ind(a, b, axis=1, equal_var=False)
        assert (np.mean((test.pvalue < 0.05) & (test.statistic > 0)) > 0.795) == enough


def test_no_number_of_seeds():
    assert minimum_detectable_effect(1, 0.05) is None
    assert seeds_to_detect(1.0, 0.0, 0.0, 0.05) is None
    assert seeds_to_detect(1e-3, 1.0, 1.0, 0.05) is None  # fifteen million
    assert seeds_to_detect(1e6, 1.0, 1.0, 0.05) == 2
    assert seeds_to_detect(0.5, 1.0, 0.0, 0.05) == seeds_to_detect(0.5, 0.0, 1.0, 0.05) > 2


def test_minimum_detectable_effect_is_r_power_t_test():
    # R: power.t.test(n = 20, delta = 1, sd = 1) has power 0.8689528; power.t.test(power = .90, delta = 1) n = 22.02110
    assert minimum_detectable_effect(20, 0.05, 0.8689528) == pytest.approx(1, abs=1e-6)
    assert minimum_detectable_effect(22, 0.05, 0.90) > 1 > minimum_detectable_effect(23, 0.05, 0.90)


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.05), (2, 1e-6), (3, 0.05 / 12), (50, 0.05)])
def test_minimum_detectable_effect_always_exists_from_two_seeds(n, alpha):
    assert 0 < minimum_detectable_effect(n, alpha) < math.inf
    assert minimum_detectable_effect(n + 1, alpha) < minimum_detectable_effect(n, alpha)
