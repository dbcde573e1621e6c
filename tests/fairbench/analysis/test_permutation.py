"""The exact permutation test against scipy's, and its floor by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from samples import AFFINE, ARMS
from scipy import stats

from fairbench.analysis.statistics.permutation import MOST_SPLITS, permutation_p, smallest_p


def scipys(a, b):
    """The same from scipy, which goes through all splits too and doubles the smaller tail."""
    found = stats.permutation_test(
        (a, b), lambda x, y, axis: x.mean(axis) - y.mean(axis), vectorized=True, n_resamples=math.inf
    )
    return found.pvalue


@settings(max_examples=15)
@given(ARMS)
def test_it_is_scipys(arms):
    whole = [np.round(1000 * np.array(arm)) for arm in arms]  # scipy takes ties of rounded sums for differences
    assert permutation_p(*arms) == pytest.approx(scipys(*whole))


@given(ARMS, AFFINE)
def test_neither_another_unit_nor_the_order_of_the_arms_changes_p(arms, unit):
    there = permutation_p(*([unit[0] * x + unit[1] for x in arm] for arm in reversed(arms)))
    assert there == permutation_p(*arms)


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_arms_that_do_not_overlap_are_at_the_floor(n):
    assert permutation_p(list(range(n)), list(range(100, 100 + n))) == pytest.approx(smallest_p(n))


def test_the_floor_by_hand():
    # 3 of 6 in 20 ways, two of which are as far apart: no result of three seeds reaches 0.05
    assert smallest_p(3) == 0.1
    assert smallest_p(4) == pytest.approx(2 / 70)
    assert smallest_p(1) == 1


def test_too_few_and_too_many():
    assert permutation_p([1.0], [2.0]) is None
    assert math.comb(22, 11) > MOST_SPLITS > math.comb(20, 10)
    assert permutation_p(list(range(11)), list(range(11))) is None
