"""Two arms seed by seed, against R's documented output and scipy."""

import pytest
from hypothesis import given
from samples import AFFINE, ARMS, SLEEP_1, SLEEP_2
from scipy import stats

from fairbench.analysis.statistics.paired import paired_t, seed_correlation


def test_the_paired_test_is_r_t_test_on_the_sleep_data():
    # R: t.test(extra ~ group, data = sleep, paired = TRUE), the data of Student's own example
    test = paired_t(SLEEP_1, SLEEP_2)
    assert test.t == pytest.approx(-4.0621, abs=5e-5)
    assert (test.df, test.p) == (9, pytest.approx(0.002833, abs=5e-7))
    assert (test.ci_low, test.ci_high) == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)


def test_the_correlation_of_the_sleep_data():
    assert seed_correlation(SLEEP_1, SLEEP_2) == pytest.approx(stats.pearsonr(SLEEP_1, SLEEP_2).statistic)
    assert seed_correlation(SLEEP_1, SLEEP_2) == pytest.approx(0.7951702, abs=5e-8)


@given(ARMS, AFFINE)
def test_another_unit_of_the_metric_changes_no_p(arms, unit):
    here, there = paired_t(*arms).p, paired_t(*([unit[0] * x + unit[1] for x in arm] for arm in arms)).p
    assert here is there is None or there == pytest.approx(here, rel=1e-6, abs=1e-9)


@given(ARMS)
def test_it_is_scipys_and_the_mirror_of_the_swapped_arms(arms):
    test, swapped = paired_t(*arms), paired_t(*reversed(arms))
    assert (test.p, test.difference) == (swapped.p, -swapped.difference)
    if test.t is not None:
        assert (test.t, test.p) == pytest.approx(tuple(stats.ttest_rel(*arms)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "p", "reason"),
    [
        ([0.5, 0.6, 0.7], [0.5, 0.6, 0.7], 1, "no seed differs"),
        ([0.5, 0.6, 0.7], [0.4, 0.5, 0.6], None, "the same difference in every seed, no test"),  # but for the rounding
        ([0.5], [0.4], None, "fewer than 2 seeds, no test"),
    ],
)
def test_degenerate_differences(a, b, p, reason):
    assert (paired_t(a, b).p, paired_t(a, b).reason) == (p, reason)


def test_no_correlation_of_a_constant_or_of_two_points():
    assert seed_correlation([0.5, 0.5, 0.5], [0.1, 0.2, 0.3]) is None
    assert seed_correlation([0.5, 0.6], [0.1, 0.2]) is None
