"""The forecast of a study against its real trials, time and disk space."""

from dataclasses import replace
from pathlib import Path
from statistics import stdev, variance

import numpy as np
import pytest
import torch
from fabricated import EVERY_PAIR, Records, finals, history, rehearsed, study, with_ladder, with_suite
from pages import printed
from tiny import here

from fairbench.analysis.forecast import FIGURE_BYTES, forecast
from fairbench.report.plan_view import plan_view
from fairbench.runner.measurements import arenas_and_environment
from fairbench.study.first_steps import FirstSteps, as_first
from fairbench.study.preflight_result import LEAST_LIMIT, LIMIT_RATIO, time_limits, trial_seconds
from fairbench.study.snapshot import open_study
from fairbench.study.trial_queue import TrialQueue
from fairbench.training.device_slot import DeviceSlot

pytestmark = pytest.mark.xdist_group("studies")  # one worker has the study that some of them share


def nothing(spec):
    return None


def with_sweep(the_study, **changed):
    return with_suite(the_study, sweep=replace(the_study.suite.sweep, **changed))


def with_tuning_arena():
    """A study whose second arena has no sweep of its own."""
    the_study = study(("vit",))
    vit = the_study.suite.arenas["vit"]
    return with_suite(the_study, arenas={"vit": vit, "vit-late": replace(vit, task="vit", tuning_arena="vit")})


def test_an_arena_that_is_tuned_on_another_has_no_sweep():
    the_study = with_tuning_arena()
    forecasts = forecast(rehearsed(the_study), nothing)
    assert [(f.sweep_trials, f.final_trials) for f in forecasts] == [(9, 9), (0, 9)]
    assert sum(f.sweep_trials + f.final_trials for f in forecasts) == TrialQueue(the_study, nothing).progress().trials


@pytest.mark.parametrize(
    ("settings", "changed"),
    [
        (1, {}),
        (1, {"seeds": [10, 11]}),
        (3, {"extra": {"weight_decay": [0.0, 0.1]}}),
        (3, {"budget": 5}),
        (5, {"budget": 8}),
    ],
)
def test_trials_are_those_of_the_schedule(settings, changed):
    """As many as are scheduled at first; with those that may be added, as many as run if the edge always wins."""
    the_study = with_sweep(study(settings=settings), **changed)
    forecasts = forecast(rehearsed(the_study), nothing)
    usual = sum(f.sweep_trials + f.final_trials for f in forecasts)
    assert usual == TrialQueue(the_study, nothing).progress().trials

    records = {}
    queue = TrialQueue(the_study, lambda spec: records.get(spec.id))
    while spec := queue.next():
        score = -spec.lr  # the lowest rate is the best
        if spec.stage == "sweep" and spec.lr < 2e-3:
            score = spec.lr  # the best of a sweep is in the middle
        if spec.arena.name != "vit":  # lower is better
            score = -score
        records[spec.id] = Records().record(spec, score)
        queue.ended(spec)
    more = sum(f.more_final_trials for f in forecasts)
    assert usual <= len(records) <= usual + more
    if "extra" not in changed:
        assert len(records) == usual + more
    assert queue.progress().trials == len(records)


def test_seconds_by_hand(tmp_path):
    """Sweeps of 10 steps and 1 evaluation, finals of 10 steps with 2 on validation and 1 on test. Kron is slow."""
    prepared = rehearsed(study(("vit",), ("AdamW", "Kron")))
    prepared = replace(prepared, costs={**prepared.costs, "Kron": {"vit": FirstSteps(seconds=1.0)}})
    assert trial_seconds(prepared, "vit", "AdamW") == pytest.approx({"sweep": 0.6, "final": 0.1 + 1.5})
    (vit,) = forecast(prepared, nothing)
    assert vit.seconds == pytest.approx(3 * (0.6 + 1.6) + 3 * (10.5 + 11.5))
    assert vit.most_seconds == vit.seconds
    assert time_limits(prepared, 0.0) == {"vit": pytest.approx(LEAST_LIMIT + LIMIT_RATIO * 11.5)}
    assert time_limits(prepared, 7.0) == {"vit": 7.0}


@pytest.mark.parametrize(
    ("first", "whole", "expected"),
    [
        ((5.0, 0.1), 6.0, (5.0, 0.1)),  # as fast as the first one
        ((0.0, 1.0), 20.0, (0.0, 2.0)),  # only steps, twice as slow
        ((5.0, 0.0), 10.0, (10.0, 0.0)),  # as long as the program trains: its steps are not told apart
    ],
)
def test_the_only_run_of_an_optimizer_of_a_program_is_split_as_that_of_the_first_one(first, whole, expected):
    start, step = first
    cost = as_first(
        FirstSteps(seconds=0.0, start_seconds=whole, steps=10), FirstSteps(seconds=step, start_seconds=start)
    )
    assert (cost.start_seconds, cost.seconds) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("per_example", "evaluated_examples", "probed"),
    [(0.01, [1, 1, 256], 16), (0.1, [1, 1, 60], 8), (100.0, [1, 1, 1], 2)],
)
def test_an_evaluation_is_scaled_to_the_larger_split(tiny_suite, monkeypatch, per_example, evaluated_examples, probed):
    """By a clock that counts examples: where they are slow, fewer are measured, at least two in a step."""
    evaluated = []

    def evaluate(arena, model, data, name, batch_size, most):
        evaluated.append(len(data.splits[name][:most]))
        assert not torch.is_autocast_enabled("cpu")

    monkeypatch.setattr("fairbench.runner.trainings.builtin_loop.evaluate", evaluate)
    clock = "fairbench.runner.trainings.builtin_loop.work_seconds"
    monkeypatch.setattr(clock, lambda device: sum(evaluated) * per_example)
    found = here(arenas_and_environment, tiny_suite, DeviceSlot())
    assert evaluated == evaluated_examples
    assert found["arenas"]["vit"]["evaluation_seconds"] == pytest.approx(449 * per_example)
    assert found["arenas"]["vit"]["probed"] == probed


def test_the_disk_space_is_about_that_of_a_real_study(finished):
    files = [*finished.output.glob("trials/*.json"), finished.output / "steps.csv"]
    written = sum(file.stat().st_size for file in files)
    opened, *_ = open_study(finished.output)
    (found,) = forecast(rehearsed(opened.study), nothing)
    assert found.disk - FIGURE_BYTES == pytest.approx(written, rel=0.5)


def test_the_spread_is_that_of_what_the_test_compares():
    """Of the differences of pairs of seeds on record, or with Welch's test of the seeds of each arm."""
    optimizers = ("AdamW", "Lion", "PsiLogic")
    paired = study(("vit",), optimizers, compare=EVERY_PAIR, test="paired")
    welch = study(("vit",), optimizers, compare=EVERY_PAIR, test="welch")
    ours = [0.5, 0.6, 0.9]
    theirs = [0.5, 0.55]
    scores = {"PsiLogic": ours, "AdamW": [*theirs, None], "Lion": [0.1, None, None]}
    (vit,) = forecast(rehearsed(paired), Records(paired, **scores))
    assert vit.spread == pytest.approx(stdev([0.5 - 0.5, 0.6 - 0.55]))  # no other pair has two seeds
    (vit,) = forecast(rehearsed(welch), Records(welch, **scores))
    squares = 2 * variance(ours) + 1 * variance(theirs)
    assert vit.spread == pytest.approx((squares / 3) ** 0.5)
    scores = {"PsiLogic": ours, "AdamW": [0.5, 0.5, 0.6], "Lion": [0.1, None, 0.3]}
    (vit,) = forecast(rehearsed(paired), Records(paired, **scores))
    squares = 2 * variance([0.0, 0.1, 0.3]) + variance([0.4, 0.6]) + variance([0.4, 0.3])
    assert vit.spread == pytest.approx((squares / 4) ** 0.5)
    (vit,) = forecast(rehearsed(paired), nothing)
    assert vit.spread is None


def shown(the_study, records=nothing):
    forecasts = forecast(rehearsed(the_study), records)
    return printed(plan_view(the_study, forecasts, 2, history(the_study), Path("out")))


def test_the_plan_in_words():
    the_study = study(("vit",), ("AdamW", "PsiLogic"), margin=0.02)
    text = shown(the_study)
    assert "vit: 2 optimizers, each 3 sweep trials of 10 steps and 3 final ones of 10;" in text
    # noncentral t with 2 degrees of freedom detects 5.6535 standard errors, with 4 degrees 3.7645
    found = "the test finds a difference as large as the margin (0.02) in 80% of studies if the standard deviation of"
    assert f"{found} the differences of pairs is at most 0.0061" in " ".join(text.split())
    of_welch = shown(study(("vit",), ("AdamW", "PsiLogic"), margin=0.02, test="welch"))
    assert f"{found} seeds is at most 0.0065" in " ".join(of_welch.split())
    assert "PsiLogic against AdamW: 1 comparison at 0.05" in text
    assert "12 trials; about 0:07 of training and evaluation, with 2 at a time; 0." in text

    ours = [0.5, 0.7, 0.8]
    noisy = [0.5, 0.6, 0.6]  # differences of about 0.1
    quiet = [0.500, 0.705, 0.810]  # and of about 0.005
    seen = shown(the_study, Records(the_study, PsiLogic=ours, AdamW=noisy))
    exceeds = "a difference of 0.33 in 80% of studies, by the seeds that have a record; that exceeds the margin (0.02)"
    assert exceeds in " ".join(seen.split())
    seen = shown(the_study, Records(the_study, PsiLogic=ours, AdamW=quiet))
    assert "0.016 in 80% of studies, by the seeds that have a record" in " ".join(seen.split())
    assert "exceeds" not in seen
    assert "vit: 2 optimizers, each 3 sweep trials of 10 steps and 1 final" in shown(
        study(("vit",), ("AdamW", "PsiLogic"), seeds=(1,))
    )
    assert "cannot reach alpha" in shown(study(("vit",), ("AdamW", "PsiLogic"), seeds=(1,)))


def test_the_plan_says_which_final_trials_there_are():
    """Two seeds decide between the settings around the located one, and only the best two get the other seeds."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"), seeds=range(1, 9))
    final = replace(the_study.suite.final, settings=3, halve_after=2)
    the_study = replace(the_study, suite=replace(the_study.suite, final=final))
    (vit,) = forecast(rehearsed(the_study), nothing)
    settings = 3
    assert vit.final_trials == 2 * (2 * settings + 6 * 2)
    text = " ".join(shown(the_study).split())
    assert "18 final ones of 10: 2 seeds for 3 settings, the other 6 for the best 2; " in text


def test_the_plan_of_a_ladder_says_which_trend_it_finds():
    """With the spread that the plan asks for, the trend that the records show to be detectable is the margin."""
    asked = with_ladder(study(("gpt",), ("AdamW", "PsiLogic"), range(1, 6)))
    first = forecast(rehearsed(asked), nothing)[0]
    assert first.trend is None
    assert 0.01 < first.trend_spread < 0.2
    spread = f"{100 * first.trend_spread:.2g}%"
    assert f"ladder gpt: finds a trend over size of 0.05 with 90% power if seeds differ by {spread}" in shown(asked)

    noise = 0.01
    rng = np.random.default_rng(0)
    lengths = {plan.steps for plan in asked.suite.arenas.values()}
    middle = np.exp(np.mean(np.log([*lengths])))
    cases = []
    for name, plan in asked.suite.arenas.items():
        loss = 1 + (plan.ladder_point.parameters / 2828) ** -0.35 + (plan.steps / middle) ** -0.35
        for optimizer in asked.suite.optimizers:
            scores = [loss + noise * rng.normal() for seed in range(1, 6)]
            cases.append(finals(arena=name, optimizer=optimizer, scores=scores))
    records = Records(asked, *cases)
    known = forecast(rehearsed(asked), records)[0]
    fall = 1 - 2**-0.35
    expected = 0.05 * noise / fall / first.trend_spread
    assert known.trend == pytest.approx(expected, rel=0.25)  # spread and law are estimates
    assert "by the seeds that have a record" in shown(asked, records)
    few = with_ladder(study(("gpt",), ("AdamW", "PsiLogic"), range(1, 6)), (1000, 2000))
    assert "ladder gpt: too few sizes, horizons or seeds" in shown(few)
