"""Learning curves and equal times, by hand."""

from types import SimpleNamespace

import fabricated
import pytest
from fabricated import Records, analysed, given, study

from fairbench.analysis.cost import costs
from fairbench.analysis.curves import curves, equal_times
from fairbench.study.record import Series

COURSE = {"AdamW": {5: 0.2, 10: 0.6}, "PsiLogic": {5: 0.4, 10: 0.5}}


def recorded(**scores):
    """A study in vit whose arms have these values after 5 and after 10 steps, and a seed that is 0.1 better each."""

    def edits(spec):
        if spec.stage != "final":
            return {}
        values = COURSE[spec.optimizer.name]
        accuracy = [value + 0.1 * (spec.seed - 1) for value in values.values()]
        return {"details.evaluations": Series([*values], {"accuracy": accuracy})}

    the_study = study(("vit",), ("AdamW", "PsiLogic"), seeds=(1, 2))
    return analysed(the_study, Records(the_study, fabricated.recorded(edits), **scores))


def times(**train_ms):
    return [SimpleNamespace(arena="vit", optimizer=name, train_ms=ms) for name, ms in train_ms.items()]


def equal(found):
    analyses = given(recorded(), {costs: found})
    return equal_times(analyses)


def test_a_curve_is_mean_and_deviation():
    curve = curves(recorded())["vit", "AdamW"]
    steps, means, deviations = zip(*curve, strict=True)
    assert steps == (5, 10)
    assert means == pytest.approx([0.25, 0.65])
    deviation = 0.1 / 2**0.5
    assert deviations == pytest.approx([deviation, deviation])


def test_a_curve_ends_where_the_first_seed_does():
    cut = recorded(AdamW=[0.5, "diverged"])
    assert curves(cut)["vit", "AdamW"] == []


def test_equal_time_lies_between_evaluations():
    slow, fast = equal(times(AdamW=5.0, PsiLogic=4.0))
    assert (slow.optimizer, slow.metric, slow.seconds, slow.steps) == ("AdamW", "accuracy", 0.04, 8.0)
    assert slow.value == pytest.approx(0.25 + 0.4 * 3 / 5)  # 3 of the 5 steps between
    assert slow.final == pytest.approx(0.65)
    assert fast.steps == pytest.approx(10.0)
    assert fast.value == pytest.approx(0.55)
    assert fast.final == pytest.approx(0.55)


@pytest.mark.parametrize("milliseconds", [0.1, 1 / 3, 7.3])
def test_the_fastest_arm_is_at_its_end_despite_rounding(milliseconds):
    fast = equal(times(AdamW=milliseconds, PsiLogic=milliseconds * 3))[0]
    assert fast.value == fast.final


def test_before_the_first_evaluation_nothing_is_known():
    slow, _ = equal(times(AdamW=10.1, PsiLogic=5.0))
    assert slow.value is None
    assert round(slow.steps, 2) == 4.95
    slow, _ = equal(times(AdamW=10.0, PsiLogic=5.0))
    assert slow.value == pytest.approx(0.25)


def test_one_arm_alone_has_no_equal():
    assert equal(times(AdamW=5.0)) == []
