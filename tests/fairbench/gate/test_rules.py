"""The rules of a session, by the numbers of their definition."""

import math

import numpy as np
import pytest
from scipy import stats

from fairbench.gate.rules import detectable_gain, is_due, judge_pairs, level_of, level_spent, passes


def test_the_levels_of_all_certificates_add_up_to_5_percent():
    assert [level_of(number) for number in (1, 6)] == pytest.approx([0.0075, 0.0075])
    assert level_of(7) == pytest.approx(0.05 * 0.1 * 6 / math.pi**2)
    assert level_of(9) == pytest.approx(level_of(7) / 9)
    assert level_spent(0) == 0
    assert 0.04999 < level_spent(10_000) < 0.05


@pytest.mark.parametrize(
    ("values", "sign", "kept"),
    [([9.4], -1, True), ([9.6], -1, False), ([9.0, 9.9], -1, True), ([9.0, 10.1], -1, False), ([10.6], 1, True)],
)
def test_a_try_must_be_better_than_head_by_half_a_standard_deviation(values, sign, kept):
    assert passes(values, head=[9.0, 11.0], std=1.0, sign=sign) == kept


@pytest.mark.parametrize(
    ("keeps", "tries", "due"),
    [(5, 9, True), (4, 24, False), (1, 25, True), (0, 0, False)],
)
def test_when_a_certificate_is_due(keeps, tries, due):
    assert is_due(keeps, tries) == due


@pytest.mark.parametrize(("pairs", "share"), [(4, math.log(1 + (math.e - 1) / 2)), (8, 1 - math.log((math.e + 1) / 2))])
def test_a_look_is_the_one_sided_paired_test_at_its_share_of_the_level(pairs, share):
    generator = np.random.default_rng(pairs)
    for _ in range(20):
        base = generator.normal(0, 1, pairs)
        head = base - generator.normal(1.5, 1, pairs)
        level = 0.02
        found = judge_pairs(base, head, sign=-1, level=level)
        reference = stats.ttest_rel(base, head, alternative="greater")
        interval = stats.ttest_rel(base, head).confidence_interval(1 - 2 * share * level)
        assert found.gain == pytest.approx(np.mean(base - head))
        assert found.p == pytest.approx(min(1, reference.pvalue / share))
        assert (found.low, found.high) == pytest.approx(tuple(interval))
        assert found.confidence == pytest.approx(1 - 2 * share * level)
        assert found.certified == (reference.pvalue <= share * level) == (found.low >= 0)


def test_equal_differences_in_every_pair_have_the_sign_test_and_certify_nothing():
    base = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    head = [value - 0.5 for value in base]
    share = 1 - math.log((math.e + 1) / 2)
    p = stats.binomtest(8, 8, alternative="greater").pvalue / share
    found = judge_pairs(base, head, sign=-1, level=level_of(1))
    assert (found.gain, found.p, found.low, found.certified) == (0.5, pytest.approx(p), None, False)
    assert judge_pairs(head, base, sign=-1, level=0.02).p is None


def test_the_detectable_gain_is_detected_in_80_percent_with_all_pairs():
    generator = np.random.default_rng(0)
    gain = detectable_gain(std=2.0, certificate=1)
    differences = generator.normal(gain, 2 * math.sqrt(2), (20_000, 8))
    t = stats.ttest_1samp(differences, 0, axis=1, alternative="greater")
    last = 1 - math.log((math.e + 1) / 2)
    assert np.mean(t.pvalue <= last * level_of(1)) == pytest.approx(0.8, abs=0.01)
