"""The metrics of each arm over its final seeds."""

from dataclasses import dataclass
from statistics import fmean, stdev

from fairbench.analysis.analyses import Analyses
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
