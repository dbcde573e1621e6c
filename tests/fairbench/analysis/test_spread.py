"""Whether two arms scatter alike, against statsmodels."""

import pytest
from hypothesis import given
from samples import AFFINE, ARMS, SLEEP_1, SLEEP_2
from statsmodels.stats.oneway import test_scale_oneway as scale_test

from fairbench.analysis.statistics.significance import brown_forsythe


@pytest.mark.parametrize("b", [SLEEP_2, [3 * x for x in SLEEP_2], [0.1] * 10])
def test_it_is_statsmodels_test_of_distances_from_the_median(b):
    reference = scale_test([SLEEP_1, b], method="equal", center="median", transform="abs")
    assert brown_forsythe(SLEEP_1, b) == pytest.approx(reference.pvalue)


def test_a_wider_arm_is_noticed_wherever_it_lies():
    narrow = [0.50, 0.51, 0.52, 0.53, 0.54, 0.55]
    assert brown_forsythe(narrow, [100 + 20 * x for x in narrow]) < 0.01
    assert brown_forsythe(narrow, [x + 100 for x in narrow]) == pytest.approx(1)


@given(ARMS, AFFINE)
def test_another_unit_of_the_metric_changes_no_p(arms, unit):
    here, there = brown_forsythe(*arms), brown_forsythe(*([unit[0] * x + unit[1] for x in arm] for arm in arms))
    assert here is there is None or there == pytest.approx(here, rel=1e-6, abs=1e-9)


def test_two_seeds_say_nothing_of_spread():
    assert brown_forsythe([-4.999999, -4.999999], [-4.999999, -4.999998]) is None  # what rounding leaves is no spread
    assert brown_forsythe([0.1, 0.3], [0.5, 0.9]) is None  # each lies as far from the median as the other
    assert brown_forsythe([0.1] * 4, [0.2] * 4) is None
