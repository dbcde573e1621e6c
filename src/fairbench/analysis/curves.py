"""The metrics of each arm over its final seeds: at the end, by step, and after the time of the fastest arm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import costs
from fairbench.analysis.results import ArmResults


@dataclass(frozen=True)
class Aggregate:
    """A metric of an arm over the finished seeds, and the number of the remaining seeds by status.

    Attributes:
        split: always "test".
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

    def one(arm: ArmResults, metric: str) -> Aggregate:
        values = arm.scores(metric)
        mean, std = (fmean(values) if values else None), (stdev(values) if len(values) > 1 else None)
        lost = map(arm.count, ("diverged", "failed", "missing"))
        return Aggregate(arm.arena, arm.optimizer, metric, "test", mean, std, len(values), *lost)

    results = analyses.results
    return [one(arm, metric) for arm in results.arms for metric in results.metrics[arm.arena]]


Curve = list[tuple[float, float, float | None]]
"""Step, mean and standard deviation, which one seed does not have."""


def curves(analyses: Analyses) -> dict[tuple[str, str], Curve]:
    """The learning curve of every arm, by arena and optimizer.

    It is the primary metric on the validation split over the final seeds, at the steps that every seed with a record
    has.
    """
    arenas = analyses.suite.arenas
    return {
        (arm.arena, arm.optimizer): mean_curve([run.curve(arenas[arm.arena].metric) for run in arm.final if run.result])
        for arm in analyses.results.arms
    }


def mean_curve(seeds: Sequence[Mapping[int, float]]) -> Curve:
    """The mean of the values of some seeds by step, at the steps that all of them have."""
    shared = sorted(set.intersection(*map(set, seeds))) if seeds else []
    columns = [(step, [seed[step] for seed in seeds]) for step in shared]
    return [(step, fmean(values), stdev(values) if len(values) > 1 else None) for step, values in columns]


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
    """Every arm of an arena in which at least two have a cost, after the training time of the fastest one.

    steps(arm) = min over arms (steps * train_ms) / train_ms(arm)
    """
    rows = []
    for arena, plan in analyses.suite.arenas.items():
        timed = [cost for cost in analyses.of(costs) if cost.arena == arena and cost.train_ms > 0]
        fastest = min((cost.train_ms for cost in timed), default=0.0)
        for cost in timed if len(timed) > 1 else []:
            curve, steps = analyses.of(curves)[arena, cost.optimizer], plan.steps * (fastest / cost.train_ms)
            end = curve[-1][1] if curve and curve[-1][0] == plan.steps else None
            about = (arena, cost.optimizer, plan.metric, plan.steps * fastest / 1000, steps)
            known = curve and curve[0][0] <= steps <= curve[-1][0]
            value = float(np.interp(steps, [x for x, _, _ in curve], [y for _, y, _ in curve])) if known else None
            rows.append(EqualTime(*about, value, end))
    return rows
