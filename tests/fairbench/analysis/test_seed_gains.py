"""Gains seed by seed, at the end and at each evaluation, are differences of the records' values."""

import pytest
from fabricated import Records, analysed, study
from scipy import stats

from fairbench.analysis.comparison.seed_gains import final_gains, gain_curve

OURS = [0.50, 0.53, 0.50]
THEIRS = [0.60, 0.61, 0.59]


@pytest.mark.parametrize(("arena", "sign"), [("gpt", -1), ("vit", 1)])
def test_gains_are_positive_where_the_optimizer_is_better(arena, sign):
    """The records have a loss in gpt and an accuracy in vit. At each evaluation a trial has its final value."""
    analyses = analysed(study((arena,), ("AdamW", "PsiLogic")), PsiLogic=OURS, AdamW=THEIRS)
    (comparison,) = analyses.comparisons
    expected = [sign * (ours - theirs) for ours, theirs in zip(OURS, THEIRS, strict=True)]
    assert final_gains(analyses.results, comparison) == pytest.approx(expected)
    interval = stats.ttest_1samp(expected, 0).confidence_interval(0.95)
    points = gain_curve(analyses.results, comparison)
    assert [point.step for point in points] == [5, 10]
    for point in points:
        assert point.gain == pytest.approx(sum(expected) / 3)
        assert (point.ci_low, point.ci_high) == pytest.approx((interval.low, interval.high))
        assert point.n == 3


def test_only_seeds_that_finished_in_both_arms_count():
    the_study = study(("gpt",), ("AdamW", "PsiLogic"))
    records = Records(the_study, PsiLogic=["failed", 0.53, 0.5], AdamW=[0.6, 0.61, "failed"])
    analyses = analysed(the_study, records)
    (comparison,) = analyses.comparisons
    assert final_gains(analyses.results, comparison) == pytest.approx([0.08])
    assert [point.n for point in gain_curve(analyses.results, comparison)] == [1, 1]
