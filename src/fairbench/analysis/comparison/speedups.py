"""How much less training an optimizer needs than the reference, in steps and in time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import step_times
from fairbench.analysis.results import ArmResults, Results
from fairbench.analysis.statistics.significance import summarize, welch
from fairbench.analysis.statistics.speedup import reach
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
        """The speed-up, or the end of the horizons that it is beyond."""
        ends = {"at least": self.longest, "at most": self.shortest}
        return ends.get(self.beyond, 1.0) if self.speedup is None else self.speedup


def curve_arenas(suite: Suite, arena: str) -> list[str]:
    """The arenas in which the reference has its curve over horizons for an arena, itself included, by rising steps."""
    own = suite.arenas[arena]
    if own.ladder_point and own.ladder_point.size:
        place = own.ladder_point.family, own.ladder_point.size, own.schedule
        found = [
            x
            for x, p in suite.arenas.items()
            if p.ladder_point and (p.ladder_point.family, p.ladder_point.size, p.schedule) == place
        ]
    else:
        found = [
            arena,
            *(x for x, p in suite.arenas.items() if p.ladder_point and p.ladder_point.reference_curve_arena == arena),
        ]
    return sorted(found, key=lambda name: suite.arenas[name].steps)


def speedups(analyses: Analyses) -> list[Speedup]:
    """A row for every arm but those of the reference, in each arena with a curve of the reference over horizons."""
    suite, results = analyses.suite, analyses.results
    verdicts = {c.pair: c.verdict for c in analyses.comparisons}
    rows = []
    for arena in suite.compared_arenas:
        curve = [results.arm(name, suite.reference) for name in curve_arenas(suite, arena)]
        arms = [arm for arm in results.of(arena) if arm.optimizer != suite.reference]
        judged = [(arm, verdicts.get((arena, arm.optimizer, suite.reference), "")) for arm in arms]
        rows += [_speedup(results, arm, curve, verdict) for arm, verdict in judged if len(curve) > 1]
    return rows


def _speedup(results: Results, arm: ArmResults, curve: Sequence[ArmResults], verdict: str) -> Speedup:
    suite = results.study.suite
    plan = suite.arenas[arm.arena]
    horizons = [suite.arenas[of.arena].steps / plan.steps for of in curve]
    about = (arm.arena, arm.optimizer, suite.reference, plan.metric, plan.steps)
    unknown = Speedup(*about, None, "", None, None, horizons[0], horizons[-1], verdict, False)
    of_arms = [{run.seed: run.metric("test", plan.metric) for run in of.final} for of in (arm, *curve)]
    seeds = sorted(set.intersection(*map(set, of_arms)))
    table = [[of_arm[seed] for seed in seeds] for of_arm in of_arms]
    if len(seeds) < 2 or any(value is None for row in table for value in row):
        return replace(unknown, note="fewer than 2 seeds" if len(seeds) < 2 else "not all trials finished")
    own, *others = -suite.sign(arm.arena) * np.array(table, dtype=float)  # lower is better
    found = reach(np.array(horizons), np.array(others), own)
    claimed = verdict == "better" and found.ci_low is not None and found.ci_low > 1
    known = replace(unknown, **found._asdict(), claimed=claimed, n=len(seeds))
    return _with_time(known, arm, results.arm(arm.arena, suite.reference))


def _with_time(row: Speedup, arm: ArmResults, reference: ArmResults) -> Speedup:
    """The row with the speed-up in time: that in steps, multiplied by the ratio of the times of a step.

    Of two independent factors with intervals, with logarithms x and y: x + y - sqrt((x - x_low)^2 + (y - y_low)^2).

    Source: Zou and Donner, "Construction of confidence intervals about effect measures", Stat. Med. 2008.
    """
    times = [[math.log(ms) for ms in step_times(of)] for of in (reference, arm)]
    if row.speedup is None or not (arm.timing and reference.timing) or min(map(len, times)) < 2:
        return row
    ratio, steps = welch(*map(summarize, times)), math.log(row.speedup)
    slow, fast = (ratio.difference if x is None else x for x in (ratio.ci_low, ratio.ci_high))

    def end(of_steps: float | None, of_ratio: float, sign: float) -> float | None:
        if of_steps is None:
            return None
        return math.exp(total + sign * math.hypot(steps - math.log(of_steps), ratio.difference - of_ratio))

    total = steps + ratio.difference
    ends = end(row.ci_low, slow, -1.0), end(row.ci_high, fast, 1.0)
    return replace(row, time_speedup=math.exp(total), time_low=ends[0], time_high=ends[1])
