"""The verdicts on a family, by scipy, numpy and statsmodels; and that each interval says the same as its verdict."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, strategies
from scipy import stats

from fairbench.analysis.comparison.judge import FEWEST_SEEDS, FINER, WIDER, judge
from fairbench.analysis.comparison.verdicts import Comparison

ALPHA = 0.05
OPPOSITE = {"better": "worse", "worse": "better"}


def compared(gain, error=1.0, df=7.0, **changed):
    """A comparison that is not judged yet: gain and error of eight seeds of both optimizers."""
    known = {"n_optimizer": 8, "n_baseline": 8, "seeds": 8} | changed
    return Comparison("vit", "accuracy", "max", "Lion", "AdamW", gain=gain, error=error, df=df, **known)


def alone(gain, **changed):
    """The only comparison of a family, judged."""
    (c,) = judge([compared(gain, **changed)], ALPHA)
    return c


TENTHS = strategies.integers(-60, 60).map(lambda tenths: tenths / 10)
NOT_NEGATIVE = strategies.integers(0, 30).map(lambda tenths: tenths / 10)
FINER_GAINS = strategies.one_of(strategies.none(), NOT_NEGATIVE)
COMPARISONS = strategies.builds(
    compared,
    TENTHS,
    error=strategies.sampled_from([0.1, 0.3, 1.0]),
    df=strategies.sampled_from([3.0, 7.5, 21.0]),
    margin=strategies.sampled_from([None, 0.7, 4.0]),
    finer_optimizer=FINER_GAINS,
    finer_baseline=FINER_GAINS,
    share=strategies.sampled_from([1.0, 0.4, 0.001]),
)
WITHOUT_TEST = strategies.just(compared(0.4, error=None, df=None))
FAMILIES = strategies.lists(strategies.one_of(COMPARISONS, WITHOUT_TEST), min_size=1, max_size=8)


def at_worst(c):
    """Scipy's p-value of a difference, and of one beyond the margin, after the search that is the worst for each."""
    if c.error is None:
        return 1.0, 1.0  # a missing test takes part in the family
    highest = c.gain + (float("inf") if c.finer_optimizer is None else c.finer_optimizer)
    lowest = c.gain - (float("inf") if c.finer_baseline is None else c.finer_baseline)
    p_better = stats.t.sf(max(lowest, 0) / c.error, c.df)
    p_worse = stats.t.cdf(min(highest, 0) / c.error, c.df)
    difference = min(1.0, 2 * min(p_better, p_worse) / c.share)
    if c.margin is None:
        return difference, 1.0
    above = stats.t.sf((c.margin - highest) / c.error, c.df)
    below = stats.t.sf((c.margin + lowest) / c.error, c.df)
    return difference, min(1.0, max(above, below) / c.share)


def holm(p_values):
    """Holm's corrected p-values, by numpy."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    stepwise = np.maximum.accumulate(factors * np.array(p_values)[order])
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(stepwise, 1)
    return corrected


@given(FAMILIES)
def test_verdicts_are_those_of_scipys_p_values_and_holms_correction(family):
    differences = []
    equivalences = []
    for c in family:
        difference, equivalence = at_worst(c)
        differences.append(difference)
        equivalences.append(equivalence)
    p_holm = holm(differences)
    p_equivalence_holm = holm(equivalences)
    for i, c in enumerate(judge(family, ALPHA)):
        if c.error is None:
            assert (c.verdict, c.p, c.p_holm) == ("inconclusive", None, None)
            continue
        assert (c.p, c.p_holm) == pytest.approx((differences[i], p_holm[i]))
        if c.margin is None:
            assert c.p_equivalence is c.p_equivalence_holm is None
        else:
            assert (c.p_equivalence, c.p_equivalence_holm) == pytest.approx((equivalences[i], p_equivalence_holm[i]))
        if p_equivalence_holm[i] < ALPHA:
            expected = "equivalent"
        elif p_holm[i] < ALPHA:
            expected = "better" if c.gain > 0 else "worse"
        else:
            expected = "inconclusive"
        assert c.verdict == expected


@given(FAMILIES)
def test_an_interval_says_what_its_verdict_says(family):
    for c in judge(family, ALPHA):
        if c.error is None:
            assert c.ci_low is c.ci_high is c.ci_level is None
            continue
        t = stats.t.ppf((1 + c.ci_level) / 2, c.df)
        assert c.ci_low == pytest.approx(c.gain - (c.finer_baseline or 0) - t * c.error)
        assert c.ci_high == pytest.approx(c.gain + (c.finer_optimizer or 0) + t * c.error)
        assert c.ci_level < 1
        if c.verdict == "better":
            assert c.ci_low > 0
        elif c.verdict == "worse":
            assert c.ci_high < 0
        elif c.verdict == "equivalent":
            assert -c.margin < c.ci_low <= c.ci_high < c.margin
        elif c.ci_low > 0 or c.ci_high < 0:
            assert c.note == WIDER


@given(FAMILIES)
def test_exchanged_optimizers_have_the_opposite_verdicts(family):
    judged = judge(family, ALPHA)
    again = judge([c.exchanged for c in family], ALPHA)
    for c, other in zip(judged, again, strict=True):
        assert other.verdict == OPPOSITE.get(c.verdict, c.verdict)
        assert (other.p, other.p_holm) == (c.p, c.p_holm)
        assert (other.p_equivalence, other.p_equivalence_holm) == (c.p_equivalence, c.p_equivalence_holm)
        assert other.exchanged == replace(c, p_no_worse=None)  # whose margin lies on the other side


def test_equivalence_is_corrected_in_its_own_family():
    """Three true differences of the margin: each p-value is 4%, and none remains after the correction."""
    t = stats.t.isf(0.04, 7)
    family = [compared(4.0 - t, margin=4.0) for _ in range(3)]
    assert alone(4.0 - t, margin=4.0).verdict == "equivalent"
    for c in judge(family, ALPHA):
        assert (c.verdict, c.p_equivalence_holm) == ("inconclusive", pytest.approx(0.12))
    large = judge([*family, compared(50.0), compared(50.0)], ALPHA)
    assert [c.verdict for c in large] == ["inconclusive"] * 3 + ["better"] * 2


def test_both_corrections_are_those_of_statsmodels():
    multipletests = import_module("statsmodels.stats.multitest").multipletests  # which takes a second to load
    family = [compared(gain, margin=4.0) for gain in (0.0, 0.1, 2.1, 2.6, 3.0, 50.0)]
    judged = judge(family, ALPHA)
    different, corrected, *_ = multipletests([c.p for c in judged], ALPHA, method="holm")
    assert [c.p_holm for c in judged] == pytest.approx(corrected)
    equivalent, corrected, *_ = multipletests([c.p_equivalence for c in judged], ALPHA, method="holm")
    assert [c.p_equivalence_holm for c in judged] == pytest.approx(corrected)
    assert [c.verdict == "better" for c in judged] == list(different)
    assert [c.verdict == "equivalent" for c in judged] == list(equivalent)
    assert {c.verdict for c in judged} == {"better", "inconclusive", "equivalent"}


def test_what_a_finer_search_could_gain_is_taken_from_the_gain():
    assert alone(5.0).note == ""
    withheld = alone(5.0, finer_baseline=4.0)
    assert (withheld.verdict, withheld.note) == ("inconclusive", FINER)
    assert alone(5.0, finer_optimizer=4.0).verdict == "better"  # the better one would be better still
    assert alone(0.0, margin=4.0).verdict == "equivalent"
    for one in ("finer_optimizer", "finer_baseline"):
        assert alone(0.0, margin=4.0, **{one: 3.0}).note == FINER
    assert alone(1.0, finer_baseline=4.0).note == ""  # which 1.0 alone does not explain either


def test_an_optimizer_whose_best_rate_is_at_the_edge_may_be_better_but_not_worse():
    assert alone(5.0, finer_optimizer=None).verdict == "better"
    withheld = alone(5.0, finer_baseline=None)
    assert (withheld.verdict, withheld.note, withheld.p) == ("inconclusive", WIDER, 1)
    assert alone(-5.0, finer_optimizer=None).note == WIDER
    assert alone(-5.0, finer_baseline=None).verdict == "worse"
    assert alone(5.0, finer_optimizer=None, finer_baseline=4.0).note == FINER
    at_margin = alone(0.0, margin=4.0, finer_optimizer=None)
    assert (at_margin.note, at_margin.p_equivalence) == (WIDER, 1)


def test_few_seeds_decide_nothing():
    two = {"n_optimizer": 2, "n_baseline": 2, "seeds": 2}
    three = {"n_optimizer": 3, "n_baseline": 3, "seeds": 3}
    assert alone(50.0, **three).note == "3 seeds decide nothing, 4 are needed"
    assert alone(50.0, **three, prior_df=2.0).verdict == "better"
    assert alone(50.0, **two, prior_df=1.0).note == "2 seeds decide nothing, 3 are needed"
    assert alone(0.0, error=0.01, margin=4.0, **three).verdict == "inconclusive"
    assert alone(50.0, test="welch", n_optimizer=3).note == "3 seeds decide nothing, 4 are needed"
    of_table = judge([compared(50.0, **three), compared(50.0, **two)], ALPHA, min_seeds=FEWEST_SEEDS)
    assert [c.verdict for c in of_table] == ["better", "inconclusive"]
    (against_number,) = judge([compared(50.0, test="one-sample", n_baseline=0)], ALPHA)
    assert against_number.verdict == "better"


def test_a_verdict_that_was_decided_stays():
    decided = compared(0.0, error=None, df=None, verdict="diverged", note="AdamW diverged 1/8")
    small = replace(compared(0.1), verdict="better")
    assert [c.verdict for c in judge([decided, small], ALPHA)] == ["diverged", "better"]


def test_an_interim_analysis_without_a_part_of_the_level_has_no_interval():
    c = alone(5.0, share=0.0)
    assert (c.verdict, c.p, c.ci_low, c.ci_level) == ("inconclusive", 1, None, None)
