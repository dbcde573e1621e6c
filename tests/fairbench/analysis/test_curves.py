"""Courses and equal times, by hand."""

from types import SimpleNamespace

import pytest
from fabricated import Records, finals, planned, study

from fairbench.analysis.curves import curve, equal_time
from fairbench.analysis.results import collect, once

COURSE = {"AdamW": {5: 0.2, 10: 0.6}, "PsiLogic": {5: 0.4, 10: 0.5}}


def results(**scores):
    """A study in vit whose arms have these values after 5 and after 10 steps, and a seed that is 0.1 better each."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"), seeds=(1, 2))
    made = Records(finals(the_study, **scores))

    def lookup(spec):
        record = made(spec)
        if record and record["status"] == "finished" and spec.stage == "final":
            values = COURSE[spec.optimizer.name].items()
            evaluations = [{"step": step, "val": {"accuracy": value + 0.1 * (spec.seed - 1)}} for step, value in values]
            record["result"]["evaluations"] = evaluations
        return record

    return collect(*planned(the_study, lookup))


def times(**train_ms):
    return [SimpleNamespace(arena="vit", optimizer=name, train_ms=ms) for name, ms in train_ms.items()]


def test_a_course_is_mean_and_deviation():
    found = curve(results(), results().arms[0])
    assert [step for step, _, _ in found] == [5, 10]
    assert [mean for _, mean, _ in found] == pytest.approx([0.25, 0.65])
    assert [std for _, _, std in found] == pytest.approx([0.1 / 2**0.5] * 2)


def test_a_course_ends_where_the_first_seed_does():
    cut = results(AdamW=[0.5, "diverged"])
    assert curve(cut, cut.arms[0]) == []


def test_equal_time_lies_between_evaluations():
    slow, fast = equal_time(results(), times(AdamW=5.0, PsiLogic=4.0))
    assert (slow.optimizer, slow.metric, slow.seconds, slow.steps) == ("AdamW", "accuracy", 0.04, 8.0)
    assert (slow.value, slow.final) == pytest.approx((0.25 + 0.4 * 3 / 5, 0.65))  # 3 of the 5 steps between
    assert (fast.steps, fast.value, fast.final) == pytest.approx((10.0, 0.55, 0.55))


@pytest.mark.parametrize("milliseconds", [0.1, 1 / 3, 7.3])
def test_the_fastest_is_at_its_end_whatever_the_rounding(milliseconds):
    fast = equal_time(results(), times(AdamW=milliseconds, PsiLogic=milliseconds * 3))[0]
    assert fast.value == fast.final


def test_before_the_first_evaluation_nothing_is_known():
    slow, _ = equal_time(results(), times(AdamW=10.1, PsiLogic=5.0))
    assert (slow.value, round(slow.steps, 2)) == (None, 4.95)
    assert equal_time(results(), times(AdamW=10.0, PsiLogic=5.0))[0].value == pytest.approx(0.25)


def test_one_arm_alone_has_no_equal():
    assert equal_time(results(), times(AdamW=5.0)) == []


def test_an_analysis_is_made_once_of_each_results():
    asked = []
    arms_of = once(lambda of: asked.append(of) or len(of.arms))
    one, other = results(), results(AdamW=[0.5, "diverged"])
    assert [arms_of(one), arms_of(one), arms_of(other)] == [2, 2, 2]
    assert asked == [one, other]
    assert curve(one, one.arms[0]) != curve(other, other.arms[0])
