"""Mean and spread of each metric over seeds."""

from dataclasses import dataclass
from statistics import fmean, stdev

from fairbench.analysis.results import ArmResults, Results


@dataclass(frozen=True)
class Aggregate:
    """A metric of an arm over the finished seeds, and how many seeds did not finish.

    Attributes:
        split: always "test".
        mean: mean over the finished seeds, None when there are none.
        std: standard deviation, ddof = 1; None for fewer than two seeds.
        n: finished seeds.
        diverged: diverged seeds.
        failed: failed seeds.
        missing: seeds without a record.
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


def aggregates(results: Results) -> list[Aggregate]:
    """Every metric of every arm, in the order of the suite."""

    def one(arm: ArmResults, metric: str) -> Aggregate:
        values = arm.scores(metric)
        mean, std = (fmean(values) if values else None), (stdev(values) if len(values) > 1 else None)
        lost = arm.count("diverged"), arm.count("failed"), arm.count("missing")
        return Aggregate(arm.arena, arm.optimizer, metric, "test", mean, std, len(values), *lost)

    return [one(arm, metric) for arm in results.arms for metric in results.metrics[arm.arena]]
