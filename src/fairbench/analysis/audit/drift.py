"""A check of the machine: whether its speed drifted while a program was trained."""

from collections.abc import Iterator, Sequence
from statistics import correlation, fmean, linear_regression
from typing import NamedTuple

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Run
from fairbench.analysis.statistics.significance import upper_tail
from fairbench.common.checks import check
from fairbench.common.formatting import percent, plain, plural, some
from fairbench.study.record import PROGRAM

LEAST_DRIFT = 0.02
"""A smaller change of a step time, as a share of it, is not reported, even if it is larger than the margin."""
LEVEL = 0.01
"""A change of the step times is a drift if its p-value is below this."""
UNEQUAL_LOAD = 0.5
"""Two arms may differ by this in the mean number of cores that other processes used."""
FEWEST = 4
"""The fewest trials in which a drift can be seen."""


class Drift(NamedTuple):
    """A straight line through values in the order in which they were measured.

    Attributes:
        first, last: the values of the line at its ends.
        p: two-sided p-value of the test that the line is level.
    """

    first: float
    last: float
    p: float


def drift(values: Sequence[float]) -> Drift:
    """The drift of at least three values.

    t = r sqrt((n - 2) / (1 - r^2)),    r = correlation of value and position,    n - 2 degrees of freedom
    """
    positions = range(len(values))
    if len(set(values)) == 1:
        return Drift(values[0], values[0], p=1.0)
    line = linear_regression(positions, values)
    r = correlation(positions, values)
    df = len(values) - 2
    unexplained = max(1 - r * r, 1e-15)  # not 0, for values on a line
    t = abs(r) * (df / unexplained) ** 0.5
    last = line.intercept + line.slope * (len(values) - 1)
    return Drift(first=line.intercept, last=last, p=2 * upper_tail(t, df))


@check(
    "step time drifts", "warn", "Compare no times of this study; run nothing else on the machine, and mind its heat."
)
def step_time_drifts(case: Analyses) -> Iterator[tuple[str, str]]:
    """The step time of a program changed over the final trials by more than 2%, and by more than the margin's share."""
    for arm in case.results.arms:
        times = _step_seconds(arm)
        if len(times) < FEWEST:
            continue
        found = drift(times)
        change = 0.0
        if found.first > 0:
            change = found.last / found.first - 1
        if found.p < LEVEL and abs(change) > max(LEAST_DRIFT, _share_of_margin(case, arm)):
            first = _step_time(found.first)
            last = _step_time(found.last)
            yield arm.arena, f"{arm.optimizer} from {first} to {last} for a step ({percent(change)}){_load(arm)}"


@check(
    "throttled or loaded", "warn", "Run nothing else on the machine, give it less to do (`-j 1`), and mind its heat."
)
def unequal_load(case: Analyses) -> Iterator[tuple[str, str]]:
    """Processors were throttled in final trials of a program, or the load of other processes differs between arms."""
    for arena in case.suite.arenas:
        loads = {}
        for arm in case.results.arms:
            if arm.arena != arena:
                continue
            costs = [run.cost for run in arm.final if run.cost]
            throttled = sum(bool(cost.throttled) for cost in costs)
            if throttled:
                yield arena, f"{arm.optimizer} {throttled} of {plural(len(costs), 'trial')} throttled"
            known = [cost.other_load for cost in costs if cost.other_load is not None]
            if known:
                loads[arm.optimizer] = fmean(known)
        if loads and max(loads.values()) - min(loads.values()) > UNEQUAL_LOAD:
            means = [f"{name} {load:.1f}" for name, load in loads.items()]
            yield arena, f"other processes used this many cores: {some(means)}"


def _step_time(seconds: float) -> str:
    """The time of a step in seconds or milliseconds, with three digits."""
    if seconds >= 1:
        return f"{plain(seconds, '.3g')} s"
    return f"{plain(1000 * seconds, '.3g')} ms"


def _load(arm: ArmResults) -> str:
    """How many cores other processes used in the final trials of an arm, in words; empty if few or unknown."""
    loads = [run.cost.other_load for run in arm.final if run.cost and run.cost.other_load is not None]
    if not loads or fmean(loads) < UNEQUAL_LOAD:
        return ""
    return f", while other processes used {fmean(loads):.1f} cores"


def _step_seconds(arm: ArmResults) -> list[float]:
    """The seconds of a step in each final trial of a program, in the order in which the trials ended."""
    timed = [run for run in arm.final if run.cost and run.cost.data_on == PROGRAM]
    seconds = []
    for run in sorted(timed, key=_ended):
        if run.cost:
            seconds.append(run.cost.seconds.total / run.cost.steps)
    return seconds


def _ended(run: Run) -> str:
    """When the record of a trial was written, as text; empty without a record."""
    return run.record.written if run.record else ""


def _share_of_margin(case: Analyses, arm: ArmResults) -> float:
    """The margin as a share of the mean of the metric."""
    plan = case.suite.arenas[arm.arena]
    scores = arm.scores(plan.metric)
    if not scores:
        return 0.0
    mean = abs(fmean(scores))
    if mean == 0:
        return 0.0
    return plan.margin / mean
