"""The speed-up of an optimizer: how much less training it needs than the reference, in steps and in time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import step_times
from fairbench.analysis.results import ArmResults, Results
from fairbench.analysis.statistics.significance import summarize, welch
from fairbench.analysis.statistics.speedup import reach
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.schema import Suite


@dataclass(frozen=True)
class Speedup:
    """The steps that the reference needs to reach the final value of an arm, over those of the arm.

    They come from final trials of the reference with other numbers of steps, each with its own schedule and its own
    search. Final values are those of the primary metric on the test split.

    Attributes:
        reference: the suite's reference.
        steps: steps of the arm.
        speedup: above 1 if the reference needs more steps; None beyond the horizons of the reference, and if unknown.
        beyond: "at least" if the reference's longest training is worse than the arm on average, "at most" if its
            shortest one is better; empty otherwise.
        ci_low, ci_high: end of the 95% confidence interval, not corrected for the number of comparisons; None where it
            is open: the reference's shortest or longest training is not ruled out.
        shortest, longest: the horizons of the reference, as multiples of the arm's steps.
        verdict: the verdict on the arm against the reference; empty where the suite does not compare them.
        claimed: whether the arm is faster: its verdict is better, and the interval lies above 1.
        time_speedup, time_low, time_high: the same in training time, with the times of a step from timing trials; None
            without these or without `speedup`.
        n: seeds, which all trials share.
    """

    arena: str
    optimizer: str
    reference: str
    metric: str
    steps: int
    speedup: float | None
    beyond: str
    ci_low: float | None
    ci_high: float | None
    shortest: float
    longest: float
    verdict: str
    claimed: bool
    time_speedup: float | None = None
    time_low: float | None = None
    time_high: float | None = None
    n: int = 0
    note: str = ""

    @property
    def reached(self) -> float:
        """The speed-up; if it is beyond the horizons of the reference, the longest or the shortest of them.

        It is 1 if the speed-up is unknown.
        """
        if self.speedup is not None:
            return self.speedup
        if self.beyond == "at least":
            return self.longest
        if self.beyond == "at most":
            return self.shortest
        return 1.0


def curve_arenas(suite: Suite, arena: str) -> list[str]:
    """The arenas that make up the curve of the reference over horizons for an arena, by rising steps.

    The arena itself is one of them.
    """
    own = suite.arenas[arena]
    arenas = []
    if own.ladder_point and own.ladder_point.size:
        for name, plan in suite.arenas.items():
            if _same_size(plan, own):
                arenas.append(name)
    else:
        arenas.append(arena)
        for name, plan in suite.arenas.items():
            if plan.ladder_point and plan.ladder_point.reference_curve_arena == arena:
                arenas.append(name)
    return sorted(arenas, key=lambda name: suite.arenas[name].steps)


def _same_size(plan: ArenaPlan, other: ArenaPlan) -> bool:
    """Whether two arenas are points of one ladder that differ only in the horizon."""
    point = plan.ladder_point
    other_point = other.ladder_point
    if point is None or other_point is None:
        return False
    same_family = point.family == other_point.family and plan.schedule == other.schedule
    return same_family and point.size == other_point.size


def speedups(analyses: Analyses) -> list[Speedup]:
    """The speed-up of every arm but the reference's, in each arena in which the reference has a curve over horizons."""
    suite = analyses.suite
    results = analyses.results
    verdicts = {c.pair: c.verdict for c in analyses.comparisons}
    rows = []
    for arena in suite.compared_arenas:
        curve = [results.arm(name, suite.reference) for name in curve_arenas(suite, arena)]
        if len(curve) < 2:
            continue  # a single horizon is not a curve
        for arm in results.of(arena):
            if arm.optimizer != suite.reference:
                verdict = verdicts.get((arena, arm.optimizer, suite.reference), "")
                rows.append(_speedup(results, arm, curve, verdict))
    return rows


def _speedup(results: Results, arm: ArmResults, curve: Sequence[ArmResults], verdict: str) -> Speedup:
    """The speed-up of an arm.

    Args:
        curve: the arms of the reference, by rising horizon.
        verdict: the verdict on the arm against the reference; empty if they are not compared.
    """
    suite = results.study.suite
    plan = suite.arenas[arm.arena]
    horizons = [suite.arenas[trained.arena].steps / plan.steps for trained in curve]
    unknown = Speedup(
        arena=arm.arena,
        optimizer=arm.optimizer,
        reference=suite.reference,
        metric=plan.metric,
        steps=plan.steps,
        speedup=None,
        beyond="",
        ci_low=None,
        ci_high=None,
        shortest=horizons[0],
        longest=horizons[-1],
        verdict=verdict,
        claimed=False,
    )
    # a row for each arm, a column for each seed
    table = _by_seed([arm, *curve], plan.metric)
    if len(table[0]) < 2:
        return replace(unknown, note="fewer than 2 seeds")
    if any(value is None for row in table for value in row):
        return replace(unknown, note="not all trials finished")
    lower_is_better = -suite.sign(arm.arena) * np.array(table, dtype=float)
    own, *others = lower_is_better
    reached = reach(np.array(horizons), curve=np.array(others), values=own)
    known = replace(
        unknown,
        speedup=reached.speedup,
        ci_low=reached.ci_low,
        ci_high=reached.ci_high,
        beyond=reached.beyond,
        claimed=verdict == "better" and reached.ci_low is not None and reached.ci_low > 1,
        n=len(table[0]),
    )
    return _with_time(known, arm, results.arm(arm.arena, suite.reference))


def _by_seed(arms: Sequence[ArmResults], metric: str) -> list[list[float | None]]:
    """The final values of some arms in the seeds that all of them have, by rising seed."""
    values = [{run.seed: run.metric("test", metric) for run in arm.final} for arm in arms]
    shared = set.intersection(*map(set, values))
    seeds = sorted(shared)
    return [[arm_values[seed] for seed in seeds] for arm_values in values]


def _with_time(row: Speedup, arm: ArmResults, reference: ArmResults) -> Speedup:
    """The row with the speed-up in time: the speed-up in steps times the ratio of the times of a step.

    x and y are the logarithms of the two factors, which are independent and have intervals. The lower limit is

        x + y - sqrt((x - x_low)^2 + (y - y_low)^2)

    Source: Zou and Donner, "Construction of confidence intervals about effect measures", Stat. Med. 2008.
    """
    reference_logs = [math.log(milliseconds) for milliseconds in step_times(reference)]
    own_logs = [math.log(milliseconds) for milliseconds in step_times(arm)]
    if row.speedup is None or min(len(reference_logs), len(own_logs)) < 2:
        return row
    log_speedup = math.log(row.speedup)
    ratio = welch(summarize(reference_logs), summarize(own_logs))
    total = log_speedup + ratio.difference
    # times without any spread have no interval
    ratio_low = ratio.difference if ratio.ci_low is None else ratio.ci_low
    ratio_high = ratio.difference if ratio.ci_high is None else ratio.ci_high
    time_low = None
    if row.ci_low is not None:
        distance = math.hypot(log_speedup - math.log(row.ci_low), ratio.difference - ratio_low)
        time_low = math.exp(total - distance)
    time_high = None
    if row.ci_high is not None:
        distance = math.hypot(log_speedup - math.log(row.ci_high), ratio.difference - ratio_high)
        time_high = math.exp(total + distance)
    return replace(row, time_speedup=math.exp(total), time_low=time_low, time_high=time_high)
