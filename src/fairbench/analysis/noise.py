"""The noise of a training program: how much its metric varies over seeds, and with the same seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from fairbench.analysis.audit.drift import FEWEST, drift
from fairbench.analysis.results import ArmResults, Results
from fairbench.analysis.statistics.power import POWER, minimum_detectable_effect
from fairbench.analysis.statistics.significance import critical_t, deviation
from fairbench.common.errors import UsageError

PAIRS = (2, 4, 8, 16)
"""The numbers of pairs for which it is said what they can show."""


@dataclass(frozen=True)
class Reach:
    """What a comparison with a number of pairs can show.

    Attributes:
        pairs: the number of seeds of each variant.
        difference: the true difference that the paired test detects with 80% power.
        equivalence: the margin within which two equal variants are shown to be equivalent with 80% power.
        minutes: the duration of the runs, one after the other.
    """

    pairs: int
    difference: float
    equivalence: float
    minutes: float


@dataclass(frozen=True)
class Noise:
    """The noise of a program's metric.

    Attributes:
        metric: the name of the metric.
        runs: the number of runs.
        mean: the mean of the metric over the seeds.
        std_seeds: its standard deviation over the seeds.
        std_repeated: its standard deviation between runs with the same seed; 0 if these have the same values.
        repeated: the number of seeds that ran twice.
        drift: the change of the step time over the runs, as a share; None for fewer than four runs.
        drift_p: p-value of the test that the step time did not drift; None for fewer than four runs.
        seconds: the median duration of a run.
        reaches: what different numbers of pairs can show.
    """

    metric: str
    runs: int
    mean: float
    std_seeds: float
    std_repeated: float
    repeated: int
    drift: float | None
    drift_p: float | None
    seconds: float
    reaches: Sequence[Reach]


def noise(results: Results, arena: str, base: str, repeated: str) -> Noise:
    """The noise of a program.

    Args:
        results: the results of a study of two equal variants.
        arena: the arena of the program.
        base: the variant that ran with every seed.
        repeated: the variant that ran with some of these seeds once more.

    Raises:
        UsageError: runs are missing, failed or diverged.
    """
    suite = results.study.suite
    metric = suite.arenas[arena].metric
    arms = [results.arm(arena, name) for name in (base, repeated)]
    first, second = (_values(arm, metric) for arm in arms)
    std_seeds = stdev(first.values())
    squares = [(first[seed] - value) ** 2 / 2 for seed, value in second.items()]
    timed = [run.cost for arm in arms for run in arm.final if run.cost]
    seconds = median(cost.seconds.total for cost in timed)
    change = None
    p = None
    step_seconds = [run.cost.seconds.total / run.cost.steps for run in arms[0].final if run.cost]
    if len(step_seconds) >= FEWEST:
        found = drift(step_seconds)
        change = found.last / found.first - 1
        p = found.p
    return Noise(
        metric=metric,
        runs=len(timed),
        mean=fmean(first.values()),
        std_seeds=std_seeds,
        std_repeated=math.sqrt(fmean(squares)),
        repeated=len(second),
        drift=change,
        drift_p=p,
        seconds=seconds,
        reaches=[_reach(pairs, std_seeds, seconds, suite.alpha) for pairs in PAIRS],
    )


def std_of_base(results: Results, arena: str) -> float | None:
    """The standard deviation of the metric of the first variant over its seeds; None for fewer than two values."""
    plan = results.study.suite.arenas.get(arena)
    if plan is None:
        return None
    scores = results.of(arena)[0].scores(plan.metric)
    return deviation(scores)


def _values(arm: ArmResults, metric: str) -> Mapping[int, float]:
    """The metric of each seed. Raises `UsageError` unless every run has finished."""
    values = {}
    for run in arm.final:
        value = run.metric("test", metric)
        if value is None:
            raise UsageError(f"the run with seed {run.seed} is {run.status}; correct the program, and run it again")
        values[run.seed] = value
    return values


def _reach(pairs: int, std_seeds: float, seconds: float, alpha: float) -> Reach:
    """What a number of pairs can show, if the two runs of a pair share nothing.

        difference:   d sqrt(2) std,    d of `minimum_detectable_effect`
        equivalence:  (t_(1-alpha) + t_(1-beta/2)) sqrt(2) std / sqrt(n),    power 1 - beta, n - 1 degrees of freedom

    Source of the second: Julious, "Sample sizes for clinical trials with normal data", Stat. Med. 2004.
    """
    std_difference = math.sqrt(2) * std_seeds
    effect = minimum_detectable_effect(pairs, alpha, "paired")
    assert effect is not None
    df = pairs - 1
    critical = critical_t(alpha, df) + critical_t((1 - POWER) / 2, df)
    return Reach(
        pairs=pairs,
        difference=effect * std_difference,
        equivalence=critical * std_difference / math.sqrt(pairs),
        minutes=2 * pairs * seconds / 60,
    )
