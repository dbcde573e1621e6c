"""The times of pairs of variants, by scipy; and that only pairs count that ran next to each other, undisturbed."""

from dataclasses import replace

import numpy as np
import pytest
from fabricated import Records, analysed, recorded, study, with_suite
from scipy import stats

from fairbench.analysis.pair_times import pair_times
from fairbench.optimizers.variant import VariantPlan
from fairbench.suites.compare import Compare

BASE = Compare(baselines=["base"])
SEEDS = [*range(6)]
BUSY = "other processes used the machine during 3 of 12 trials; run nothing else on it, and one trial at a time (-j 1)"
NOISE = [0.0, 0.2, -0.1, 0.1, -0.2, 0.05]


def times(seconds, *, steps=1000, edits=lambda spec: {}):
    """The row on `mine` against `base`, whose trials take 10 seconds; `seconds` are those of `mine` in each seed."""
    the_study = study(("vit",), ("base", "mine"), seeds=SEEDS, reference="base", compare=BASE)
    plans = {name: replace(plan, variant=VariantPlan()) for name, plan in the_study.suite.optimizers.items()}
    the_study = with_suite(the_study, optimizers=plans)

    def values(spec):
        took = 10 + NOISE[spec.seed]
        count = 1000
        if spec.optimizer.name == "mine":
            took = seconds[spec.seed]
            count = steps
        usual = {
            "cost.data_on": "program",
            "cost.steps": count,
            "cost.seconds.total": took,
            "cost.other_load": 0.02,
            "plan": "a plan",
            "written": f"2026-01-01T00:0{spec.seed}:00+00:00",
        }
        return {**usual, **edits(spec)}

    (row,) = analysed(the_study, Records(the_study, recorded(values))).of(pair_times)
    return row


def test_the_ratio_is_that_of_scipys_test_of_the_logarithms():
    ours = [9.0, 9.3, 8.8, 9.2, 8.7, 9.1]
    theirs = [10 + noise for noise in NOISE]
    row = times(ours, steps=900)
    logarithms = np.log(ours) - np.log(theirs)
    expected = stats.ttest_1samp(logarithms, 0)
    low, high = expected.confidence_interval(0.95)
    assert row.verdict == "faster"
    assert (row.pairs, row.level) == (6, 0.95)
    assert row.p_holm == pytest.approx(expected.pvalue)
    assert row.trial_ratio == pytest.approx(np.exp(logarithms.mean()))
    assert (row.trial_low, row.trial_high) == pytest.approx((np.exp(low), np.exp(high)))
    assert row.step_ratio == pytest.approx(row.trial_ratio / 0.9)  # it has taken fewer steps


def test_the_verdicts():
    assert times([11 + noise for noise in NOISE[::-1]]).verdict == "slower"
    equal = times([10 + noise for noise in NOISE[::-1]])
    assert equal.verdict == "inconclusive"
    assert equal.trial_low < 1 < equal.trial_high


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({"cost.other_load": 1.0}, BUSY),
        ({"cost.alone": False}, BUSY),
        ({"cost.other_load": None}, "3 pairs ran next to each other and undisturbed, 4 are needed"),
        ({"cost.throttled": 2}, "3 pairs ran next to each other and undisturbed, 4 are needed"),
        ({"written": "2026-01-02T00:00:00+00:00"}, "3 pairs ran next to each other and undisturbed, 4 are needed"),
        ({"plan": ""}, "3 pairs ran next to each other and undisturbed, 4 are needed"),
    ],
)
def test_a_disturbed_pair_does_not_count(changed, note):
    def edits(spec):
        if spec.optimizer.name == "base" and spec.seed < 3:
            return changed
        return {}

    row = times([9 + noise for noise in NOISE], edits=edits)
    assert (row.pairs, row.verdict, row.note) == (3, "not comparable", note)


def test_optimizers_have_timing_trials_instead():
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    assert analysed(the_study).of(pair_times) == []
