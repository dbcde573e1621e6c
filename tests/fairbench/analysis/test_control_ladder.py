"""Contributions of the ablation steps of a control ladder: by hand, and their sum."""

from statistics import fmean

import pytest
from fabricated import analysed, study
from hypothesis import given, strategies
from samples import SCORES
from scipy import stats

from fairbench.analysis.comparison.controls import contributions
from fairbench.report.sections.causes import causes

LADDER = ["AdamW", "+GC", "+AGC", "PsiLogic"]
SEEDS = 4


def recorded(arenas=("vit",), controls=LADDER, **scores):
    seeds = range(1, SEEDS + 1)
    return analysed(study(arenas, LADDER, seeds=seeds, controls=controls), **scores)


def rows_of(arenas=("vit",), **scores):
    return contributions(recorded(arenas, **scores))


def contributions_of(rows):
    """The contribution of each row."""
    return [row.contribution for row in rows]


def in_words(**scores):
    return causes(recorded(**scores))


ABLATION_STEPS = {
    "AdamW": [0.50, 0.52, 0.55, 0.51],
    "+GC": [0.53, 0.54, 0.57, 0.55],
    "+AGC": [0.52, 0.54, 0.58, 0.53],
    "PsiLogic": [0.60, 0.61, 0.66, 0.63],
}


def test_contributions_by_hand():
    rows = rows_of(**ABLATION_STEPS)
    assert [row.part for row in rows] == ["ablation step", "ablation step", "ablation step", "whole"]
    assert [row.before for row in rows] == ["AdamW", "+GC", "+AGC", "AdamW"]
    assert [row.optimizer for row in rows] == ["+GC", "+AGC", "PsiLogic", "PsiLogic"]
    assert contributions_of(rows) == pytest.approx([0.0275, -0.005, 0.0825, 0.105])
    interval = stats.ttest_rel(ABLATION_STEPS["+GC"], ABLATION_STEPS["AdamW"]).confidence_interval(0.95)
    assert (rows[0].ci_low, rows[0].ci_high) == pytest.approx(tuple(interval))


def test_a_loss_that_falls_is_a_gain():
    rows = rows_of(("vit", "gpt"), **ABLATION_STEPS)
    vit = [row for row in rows if row.arena == "vit"]
    gpt = [row for row in rows if row.arena == "gpt"]
    negated = [-contribution for contribution in contributions_of(vit)]
    assert contributions_of(gpt) == pytest.approx(negated)
    assert gpt[0].ci_low == pytest.approx(-vit[0].ci_high)
    assert gpt[0].ci_high == pytest.approx(-vit[0].ci_low)


ARM = strategies.lists(SCORES, min_size=SEEDS, max_size=SEEDS)
FOUR_ARMS = strategies.lists(ARM, min_size=4, max_size=4)


@given(FOUR_ARMS)
def test_the_contributions_sum_to_the_whole(scores):
    by_optimizer = dict(zip(LADDER, scores, strict=True))
    *ablation_steps, whole = rows_of(**by_optimizer)
    assert sum(contributions_of(ablation_steps)) == pytest.approx(whole.contribution, abs=1e-12)
    assert whole.contribution == pytest.approx(fmean(scores[-1]) - fmean(scores[0]), abs=1e-12)


def test_a_rung_that_did_not_finish_contributes_nothing_that_is_known():
    lost = {**ABLATION_STEPS, "+AGC": ["diverged", 0.5, None, 0.5]}
    rows = rows_of(**lost)
    after_gc, after_agc, psilogic, whole = contributions_of(rows)
    assert after_gc is not None
    assert after_agc is None
    assert psilogic is None
    assert whole is not None
    assert rows[1].note == "+AGC finished 2 of 4 seeds"
    assert "+AGC unknown (+AGC finished 2 of 4 seeds)" in in_words(**lost)


def test_the_same_difference_in_every_seed_has_no_interval():
    shifted = [score + 0.01 for score in ABLATION_STEPS["AdamW"]]
    rows = rows_of(**{**ABLATION_STEPS, "+GC": shifted})
    assert (rows[0].contribution, rows[0].ci_low) == (pytest.approx(0.01), None)
    assert rows[0].note == "every pair differs by the same amount, sign test"


def test_in_words():
    text = in_words(**ABLATION_STEPS)
    assert text.startswith("vit: +GC +0.0275 [+0.0123, +0.0427], +AGC −0.005 [")
    assert "the whole +0.1" in text
    assert "0 lies outside the interval of +GC, PsiLogic." in text
    assert in_words(controls=[], **ABLATION_STEPS) == ""
