"""The time left of a study, by hand."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fabricated import seconds

from fairbench.runner.observers import RunningTrial
from fairbench.runner.progress.pace import Pace, counted_steps


def test_without_a_step_nothing_is_known():
    assert Pace({}).left({"gpt": 100}, trials_left=4, workers=2) is None


def test_before_the_first_trial_the_measured_steps_count():
    pace = Pace({"gpt": 0.1, "vit": 0.2})
    assert pace.left({"gpt": 100, "vit": 50}, trials_left=4, workers=2) == pytest.approx((10 + 10) / 2)


def test_before_the_first_trial_the_measured_start_counts_in_each_trial():
    pace = Pace({"program": 0.0}, start=7.0)
    assert pace.left({"program": 100}, trials_left=4, workers=2) == pytest.approx(14)
    pace.add("program", steps=10, seconds=seconds(10.0), whole=1.0)
    assert pace.left({"program": 100}, trials_left=4, workers=2) == pytest.approx(2)  # it took 1 s, all of it start


def test_the_start_of_a_program_does_not_grow_with_its_steps():
    """A search trial of 10 steps takes 12 s, as 5 s of start and 1 s of steps were measured: half as fast."""
    pace = Pace({"program": 0.1}, start=5.0)
    pace.add("program", steps=10, seconds=seconds(120.0), whole=12.0)
    assert pace.left({"program": 40}, trials_left=1, workers=1) == pytest.approx(10 + 40 * 0.2)


def test_short_trials_of_a_search_tell_the_time_of_long_ones():
    """A search trial of 10 steps that takes 3 s of steps and 5 s of start: one of 100 steps takes 35 s, not 80."""
    pace = Pace({})
    pace.add("gpt", steps=10, seconds=seconds(30.0), whole=8.0)
    assert pace.left({"gpt": 100}, trials_left=1, workers=1) == pytest.approx(100 * 0.3 + 5)


def test_an_arena_without_trials_has_its_measured_steps_scaled_by_those_of_the_others():
    """The steps of gpt take three times what was measured, so those of vit do so, too."""
    pace = Pace({"gpt": 0.1, "vit": 0.2})
    pace.add("gpt", steps=10, seconds=seconds(30.0), whole=3.0)
    assert pace.left({"gpt": 0, "vit": 10}, trials_left=1, workers=1) == pytest.approx(10 * 0.2 * 3)


def test_without_measured_steps_it_has_the_mean_of_the_others():
    pace = Pace({})
    pace.add("gpt", steps=10, seconds=seconds(10.0), whole=1.0)
    pace.add("vit", steps=30, seconds=seconds(30.0), whole=3.0)
    assert pace.left({"ddpm": 40}, trials_left=0, workers=1) == pytest.approx(4.0)


@pytest.mark.parametrize(("status", "counted"), [("finished", 1000), ("diverged", 20)])
def test_a_program_that_ends_before_its_planned_steps_is_a_whole_trial(status, counted):
    record = SimpleNamespace(status=status, result=SimpleNamespace(steps=20))
    assert counted_steps(record, planned=1000) == counted


def test_a_trial_of_unknown_length_has_no_time_left():
    trial = RunningTrial(label="a trial", steps=0, started=0.0, updated=10.0, step=20)
    assert (trial.position, trial.left(now=10.0)) == ("20", None)
    assert replace(trial, steps=40).position == "20/40"
    assert replace(trial, steps=40).left(now=10.0) == pytest.approx(10.0)
