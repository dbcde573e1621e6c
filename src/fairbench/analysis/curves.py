"""The metrics of each arm over its final seeds: at the end, by step, and after the time of the fastest arm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import costs
from fairbench.analysis.results import ArmResults
from fairbench.analysis.statistics.significance import deviation


@dataclass(frozen=True)
class Aggregate:
    """A metric of an arm over the finished seeds, and the number of the remaining seeds by status.

    Attributes:
        split: the split that the verdict is about, "test", or "val" without a test split.
        mean: mean of the metric over the finished seeds, None when there are none.
        std: standard deviation over the finished seeds, ddof = 1; None for fewer than two seeds.
        n: number of finished seeds.
        diverged, failed, missing: number of seeds with this status.
    """

    arena: str
    optimizer: str
    metric: str
    split: str
    mean: float | None
    std: float | None
    n: int
    diverged: int
    failed: int
    missing: int


def aggregates(analyses: Analyses) -> list[Aggregate]:
    """Every metric of every arm, in the order of the suite."""
    results = analyses.results
    rows = []
    for arm in results.arms:
        for metric in results.metrics[arm.arena]:
            rows.append(_aggregate(arm, metric, results.study.suite.decides))
    return rows


def _aggregate(arm: ArmResults, metric: str, split: str) -> Aggregate:
    """A metric of an arm over its final seeds. `split` is that of their scores."""
    values = arm.scores(metric)
    return Aggregate(
        arena=arm.arena,
        optimizer=arm.optimizer,
        metric=metric,
        split=split,
        mean=fmean(values) if values else None,
        std=deviation(values),
        n=len(values),
        diverged=arm.count("diverged"),
        failed=arm.count("failed"),
        missing=arm.count("missing"),
    )


Curve = list[tuple[float, float, float | None]]
"""The points of a curve: step, mean and standard deviation. The last is None for one seed."""


def curves(analyses: Analyses) -> dict[tuple[str, str], Curve]:
    """The learning curve of every arm, by arena and optimizer.

    A curve is the primary metric on the validation split, a mean over the final seeds. It has the steps at which all
    seeds with a record were evaluated.
    """
    curve_of_arm = {}
    for arm in analyses.results.arms:
        metric = analyses.suite.arenas[arm.arena].metric
        curve_of_each_seed = [run.curve(metric) for run in arm.final if run.result]
        curve_of_arm[arm.arena, arm.optimizer] = mean_curve(curve_of_each_seed)
    return curve_of_arm


def mean_curve(seeds: Sequence[Mapping[int, float]]) -> Curve:
    """The mean curve of some seeds, at the steps that all of them have. Each seed has its values by step."""
    if not seeds:
        return []
    shared = set(seeds[0]).intersection(*seeds[1:])
    curve: Curve = []
    for step in sorted(shared):
        values = [seed[step] for seed in seeds]
        curve.append((step, fmean(values), deviation(values)))
    return curve


@dataclass(frozen=True)
class EqualTime:
    """An arm after the training time that the fastest arm of its arena needs for all its steps.

    Attributes:
        seconds: that time.
        steps: the steps of the arm in that time.
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


def equal_times(analyses: Analyses) -> list[EqualTime]:
    """The value of every arm after the training time of the fastest arm of its arena.

    An arena in which fewer than two arms have timing trials is left out.

    steps(arm) = min over arms (steps * train_ms) / train_ms(arm)
    """
    rows = []
    for arena, plan in analyses.suite.arenas.items():
        step_ms = _step_milliseconds(analyses, arena)
        if len(step_ms) < 2:
            continue
        fastest = min(step_ms.values())
        for optimizer, milliseconds in step_ms.items():
            curve = analyses.of(curves)[arena, optimizer]
            steps = plan.steps * (fastest / milliseconds)
            row = EqualTime(
                arena=arena,
                optimizer=optimizer,
                metric=plan.metric,
                seconds=plan.steps * fastest / 1000,
                steps=steps,
                value=_value_at(curve, steps),
                final=_value_at_the_end(curve, plan.steps),
            )
            rows.append(row)
    return rows


def _step_milliseconds(analyses: Analyses, arena: str) -> dict[str, float]:
    """The milliseconds of a training step of each optimizer that has timing trials in an arena."""
    step_ms = {}
    for cost in analyses.of(costs):
        if cost.arena == arena and cost.train_ms:
            step_ms[cost.optimizer] = cost.train_ms
    return step_ms


def _value_at(curve: Curve, step: float) -> float | None:
    """The mean of a curve at a step, linear between evaluations; None before the first and after the last one."""
    if not curve:
        return None
    steps, means, _ = zip(*curve, strict=True)
    if not steps[0] <= step <= steps[-1]:
        return None
    return float(np.interp(step, steps, means))


def _value_at_the_end(curve: Curve, steps: int) -> float | None:
    """The mean of a curve at the last step of the training; None if the curve ends before."""
    if not curve:
        return None
    step, mean, _ = curve[-1]
    return mean if step == steps else None
