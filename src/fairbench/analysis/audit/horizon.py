"""Checks of whether the result depends on the length of training; differences below the margin never count."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from statistics import fmean

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit.check import check, some
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import ArmResults
from fairbench.analysis.statistics.significance import summary, welch
from fairbench.suites.schema import Suite

DECIDED = ("better", "worse", "equivalent")
"""Verdicts that contradict each other."""
LENGTH = ("steps", "sweep_steps", "margin", "task", "tuned_on")
"""Fields of an arena's plan that may differ between two horizons; without `task`, the arena's name is the task."""
SeedCurves = list[dict[int, float]]
"""Of each seed the validation metric by step, higher being better."""


@check(
    "flip between horizons", "warn", "Claim nothing beyond the horizon; add a longer one to see which verdict stays."
)
def flips_between_horizons(case: Analyses) -> str:
    """The verdict, or the order by more than the margin, is another one at the last of two or more horizons."""
    found = {(c.arena, c.reference, c.baseline): c for c in case.comparisons}

    def flips() -> Iterator[str]:
        for (arena, reference, baseline), short in found.items():
            longer = _last_horizons(case.suite).get(arena)
            long = found.get((longer, reference, baseline)) if longer else None
            if long and (_contradict(short, long) or _flip(short.advantage, long.advantage, case.margin(long))):
                yield f"{case.title(short)} {_told(short)}, {case.title(long)} {_told(long)}"

    return some(list(flips()), "; ")


def _last_horizons(suite: Suite) -> dict[str, str]:
    """The arena with the last horizon of a task, by the one with the horizon before it."""
    horizons: dict[str, dict[int, str]] = {}
    for name, plan in sorted(suite.arenas.items(), key=lambda item: item[1].steps):
        same = {key: value for key, value in asdict(plan).items() if key not in LENGTH}
        horizons.setdefault(json.dumps([suite.task(name), same], sort_keys=True), {})[plan.steps] = name
    several = [list(names.values()) for names in horizons.values() if len(names) > 1]
    return {names[-2]: names[-1] for names in several}


def _contradict(one: Comparison, other: Comparison) -> bool:
    return one.verdict in DECIDED and other.verdict in DECIDED and one.verdict != other.verdict


def _flip(before: float | None, after: float | None, margin: float) -> bool:
    """Whether a difference changes its sign, and is not below the margin on both sides."""
    if before is None or after is None:
        return False
    return before * after < 0 and max(abs(before), abs(after)) > margin


def _told(c: Comparison) -> str:
    return c.verdict if c.advantage is None else f"{c.verdict} ({c.advantage:+.3g})"


@check("order not settled", "warn", "Take the order of these two as open; train longer, or evaluate more often.")
def order_not_settled(case: Analyses) -> str:
    """Between the last two validation evaluations two means change places, and were not within the margin before."""

    def flips() -> Iterator[str]:
        for c, ours, theirs in _pairs(case):
            gaps = [(step, fmean(x[step] for x in ours) - fmean(x[step] for x in theirs)) for step in sorted(ours[0])]
            for (before, gap), (after, last) in list(pairwise(gaps))[-1:]:
                if _flip(gap, last, case.margin(c)):
                    yield f"{case.title(c)} {gap:+.3g} at step {before}, {last:+.3g} at step {after}"

    return some([*flips()], "; ")


@check("gap still changes", "warn", "Claim nothing beyond the horizon; add a longer one.")
def gap_changes(case: Analyses) -> str:
    """In the last third one of two arms gains more than the other, by more than the margin and more than by chance."""
    alpha = case.suite.alpha

    def changes() -> Iterator[str]:
        for c, ours, theirs in _pairs(case):
            gains = _gains(ours), _gains(theirs)
            test = welch(*map(summary, gains)) if all(gains) else None
            if test and test.p is not None and test.p < alpha and abs(test.difference) > case.margin(c):
                yield f"{case.title(c)} gains {test.difference:+.3g} more, margin {case.margin(c):g}"

    return some([*changes()], "; ")


@check("still improving", "note", "Read the verdicts as being about short training; add a longer horizon.")
def still_improving(case: Analyses) -> str:
    """The validation metric of an arm improves by more than the margin in the last third, where the rate falls to 0."""
    found = []
    curves = _curves(case)
    for arena, plan in case.suite.arenas.items():
        gains = {arm.optimizer: _gains(curves[arena, arm.optimizer]) for arm in case.results.of(arena)}
        means = {name: fmean(of_arm) for name, of_arm in gains.items() if of_arm}
        if more := [f"{name} {mean:.2g}" for name, mean in means.items() if mean > plan.margin]:
            found.append(f"{arena}: {', '.join(more)} (margin {plan.margin:g})")
    return "; ".join(found)


def _pairs(case: Analyses) -> Iterator[tuple[Comparison, SeedCurves, SeedCurves]]:
    """The comparisons whose arms both have finished seeds, with their curves."""
    curves = _curves(case)
    for c in case.comparisons:
        ours, theirs = (curves[c.arena, name] for name in (c.reference, c.baseline))
        if ours and theirs:
            yield c, ours, theirs


def _curves(case: Analyses) -> dict[tuple[str, str], SeedCurves]:
    """The curves of the finished seeds of every arm."""
    signs = {}
    for arena, plan in case.suite.arenas.items():
        signs[arena] = plan.metric, -1.0 if case.suite.facts(arena).metrics[plan.metric] == "min" else 1.0

    def of(arm: ArmResults) -> SeedCurves:
        metric, sign = signs[arm.arena]
        seeds = (run.curve(metric) for run in arm.final if run.status == "finished")
        return [{step: sign * value for step, value in seed.items()} for seed in seeds]

    return {(arm.arena, arm.optimizer): of(arm) for arm in case.results.arms}


def _gains(curves: SeedCurves) -> list[float]:
    """What each seed gains in the last third: since the last evaluation that is not in it."""
    steps = sorted(curves[0]) if curves else []
    before = [step for step in steps if step <= 2 * steps[-1] / 3]
    return [curve[steps[-1]] - curve[before[-1]] for curve in curves] if before else []
