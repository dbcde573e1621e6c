"""Times to target and performance profiles, by hand."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fabricated import Records, finals, study

from fairbench.analysis.comparison.time_to_target import TimeToTarget, profile, steps_to_target, times_to_target
from fairbench.analysis.results import collect


class Curves(Records):
    """Records whose trials evaluate every 10 steps: `curves[optimizer][seed]` are the values."""

    def __init__(self, the_study, curves, **scores):
        super().__init__(finals(the_study, **scores))
        self.curves = curves

    def result(self, spec, outcome, status):
        values = self.curves.get(spec.optimizer.name, {}).get(spec.seed, [0.5])
        metric = "accuracy" if spec.arena.name == "vit" else "loss"
        curve = [{"step": 10 * i, "val": {metric: value}} for i, value in enumerate(values, 1)]
        return {**super().result(spec, outcome, status), "evaluations": curve}


def timed(arena, optimizer, seconds):
    return SimpleNamespace(arena=arena, optimizer=optimizer, source="timing", train_ms=1000 * seconds)


def times(arena, target, curves, seconds=None, **scores):
    the_study = study((arena,), ("AdamW", "PsiLogic"))
    arenas = {arena: replace(the_study.suite.arenas[arena], target=target)}
    the_study = replace(the_study, suite=replace(the_study.suite, arenas=arenas))
    results = collect(the_study, Curves(the_study, curves, **scores))
    found = times_to_target(results, [timed(*arm, x) for arm, x in (seconds or {}).items()])
    by_seed = [steps_to_target(the_study.suite, run) for run in results.arm(arena, "PsiLogic").final]
    return {x.optimizer: x for x in found}.get("PsiLogic"), by_seed


def test_the_first_evaluation_at_the_target_counts():
    curves = {1: [0.1, 0.6, 0.4], 2: [0.1, 0.2, 0.5], 3: [0.5, 0.6, 0.7]}
    found, by_seed = times("vit", 0.5, {"PsiLogic": curves}, {("vit", "PsiLogic"): 0.25})
    assert (by_seed, found.reached, found.share) == ([20, 30, 10], 3, 1.0)
    assert (found.median_steps, found.median_seconds) == (20, 5.0)


def test_a_loss_must_fall_to_the_target():
    found, by_seed = times("gpt", 0.5, {"PsiLogic": {1: [0.9, 0.5], 2: [0.6, 0.4], 3: [0.9, 0.8]}})
    assert (by_seed, found.reached, found.median_steps) == ([20, 20, None], 2, 20)
    assert found.median_seconds is None


def test_a_target_may_be_negative():
    """A reward, or a log-likelihood: with the sign turned round, -400 reaches -500 from above."""
    assert times("vit", -500, {"PsiLogic": {1: [-900, -400], 2: [-600, -600], 3: [-499]}})[1] == [20, None, 10]
    assert times("gpt", -500, {"PsiLogic": {1: [-400, -900], 2: [-400, -400], 3: [-501]}})[1] == [20, None, 10]


def test_most_seeds_must_reach_it():
    found, _ = times("vit", 0.5, {"PsiLogic": {1: [0.9], 2: [0.1], 3: [0.2]}})
    assert (found.reached, found.share, found.median_steps) == (1, pytest.approx(1 / 3), None)


def test_steps_after_the_target_do_not_matter():
    _, by_seed = times("vit", 0.5, {"PsiLogic": {1: [0.9, 0.0]}}, PsiLogic=["diverged", 0.5, 0.5])
    assert by_seed == [10, 10, 10]


def test_with_missing_seeds_nothing_is_known():
    found, by_seed = times("vit", 0.5, {}, PsiLogic=[None, 0.5, 0.5])
    assert (found.reached, found.median_steps, by_seed[0]) == (None, None, None)


def test_an_arena_without_a_target_has_no_times():
    assert times("vit", None, {}) == (None, [None] * 3)


def time(arena, optimizer, steps, seconds=None):
    reached = 3 if steps else 0
    return TimeToTarget(arena, optimizer, "loss", 1.0, 3, reached, reached / 3, steps, seconds)


def shares(points, measure="steps"):
    return {(x.optimizer, x.tau): x.share for x in points if x.measure == measure}


def test_the_profile_by_hand():
    # a: A is fastest, B takes 1.5 times as long; b: B is fastest, A never; c: both; d: nobody
    rows = [time("a", "A", 100), time("a", "B", 150), time("b", "A", None), time("b", "B", 80)]
    rows += [time("c", "A", 60), time("c", "B", 60), time("d", "A", None), time("d", "B", None)]
    points = profile(rows)
    assert shares(points) == {("A", 1.0): 0.5, ("A", 1.5): 0.5, ("B", 1.0): 0.5, ("B", 1.5): 0.75}
    assert {x.arenas for x in points} == {4}
    assert not shares(points, "seconds")


def test_seconds_may_turn_the_order_round_and_need_every_arm():
    rows = [time("a", "A", 100, 10.0), time("a", "B", 150, 5.0)]
    assert shares(profile(rows), "seconds") == {("A", 1.0): 0, ("A", 2.0): 1, ("B", 1.0): 1, ("B", 2.0): 1}
    assert not shares(profile([*rows, time("b", "A", 10, 1.0), time("b", "B", 10)]), "seconds")


def test_an_arena_that_is_not_complete_does_not_count():
    rows = [time("a", "A", 100), time("a", "B", 150), time("b", "A", 10), TimeToTarget("b", "B", "loss", 1.0, 3)]
    assert {x.arenas for x in profile(rows)} == {1}
    assert profile(rows[2:]) == []
