"""The course of an arm's training, and where it is after the same time as another."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from fairbench.analysis.cost import Cost
from fairbench.analysis.results import ArmResults, Results, once

Curve = list[tuple[float, float, float]]
"""Step, mean and standard deviation."""


def curve(results: Results, arm: ArmResults) -> Curve:
    """The primary metric on the validation split over the final seeds, where every seed with a record still has it."""
    return _curves(results)[arm.arena, arm.optimizer]


@once
def _curves(results: Results) -> dict[tuple[str, str], Curve]:
    """The curve of every arm."""
    arenas = results.study.suite.arenas
    return {(arm.arena, arm.optimizer): _curve(arm, arenas[arm.arena].metric) for arm in results.arms}


def _curve(arm: ArmResults, metric: str) -> Curve:
    seeds = [{e["step"]: e["val"][metric] for e in run.result["evaluations"]} for run in arm.final if run.result]
    shared = sorted(set.intersection(*map(set, seeds))) if seeds else []
    columns = [(step, [seed[step] for seed in seeds]) for step in shared]
    return [(step, fmean(values), stdev(values) if len(values) > 1 else 0.0) for step, values in columns]


@dataclass(frozen=True)
class EqualTime:
    """An arm after as much training time as the fastest arm of its arena needs for all its steps.

    Attributes:
        arena: name of the arena.
        optimizer: name of the optimizer.
        metric: the primary metric.
        seconds: that time.
        steps: how many steps the arm has done by then.
        value: mean of the metric on the validation split there, linear between evaluations; None before the first.
        final: the same at the end.
    """

    arena: str
    optimizer: str
    metric: str
    seconds: float
    steps: float
    value: float | None
    final: float | None


def equal_time(results: Results, costs: Sequence[Cost]) -> list[EqualTime]:
    """Every arm after the same training time as the fastest of its arena; evaluation and start are not counted.

        steps(arm) = min over arms (steps * train_ms) / train_ms(arm)

    Args:
        results: the study's results.
        costs: what a step of each arm takes, from trials that had their device to themselves.

    Returns:
        A row for each arm of an arena in which at least two have a cost.
    """
    found = []
    for arena, plan in results.study.suite.arenas.items():
        timed = [cost for cost in costs if cost.arena == arena and cost.train_ms > 0]
        fastest = min((cost.train_ms for cost in timed), default=0.0)
        for cost in timed if len(timed) > 1 else []:
            course, steps = curve(results, results.arm(arena, cost.optimizer)), plan.steps * (fastest / cost.train_ms)
            end = course[-1][1] if course and course[-1][0] == plan.steps else None
            at = (arena, cost.optimizer, plan.metric, plan.steps * fastest / 1000, steps)
            found.append(EqualTime(*at, _between(course, steps), end))
    return found


def _between(course: Curve, step: float) -> float | None:
    """The mean at a step, on the line between the evaluations around it."""
    after = bisect_left([at for at, _, _ in course], step)
    if after == len(course) or (after == 0 and course[0][0] != step):
        return None
    (right, high, _), (left, low, _) = course[after], course[max(after - 1, 0)]
    return high if right == step else low + (high - low) * (step - left) / (right - left)
