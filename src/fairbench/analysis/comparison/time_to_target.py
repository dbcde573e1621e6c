"""The time that a training takes to reach a target, and performance profiles of these times over the arenas."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from fairbench.analysis.cost import Cost
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.suites.schema import Suite


@dataclass(frozen=True)
class TimeToTarget:
    """When the final trials of an arm first reached the arena's target on the validation split.

    Only evaluations count, so steps are multiples of their distance. What a trial does after it reached the target does
    not matter, even if it diverges.

    Attributes:
        target: the value that must be reached.
        seeds: number of final trials; the other columns are empty unless all of them are known.
        reached: how many seeds reached the target.
        share: reached / seeds.
        median_steps: median of the seeds' steps to the target, infinite for a seed that never reached it; None where
            the median is infinite.
        median_seconds: the median in seconds of training; None unless timing trials give the time of a step.
    """

    arena: str
    optimizer: str
    metric: str
    target: float
    seeds: int
    reached: int | None = None
    share: float | None = None
    median_steps: float | None = None
    median_seconds: float | None = None


@dataclass(frozen=True)
class ProfilePoint:
    """A point at which the performance profile of an optimizer may rise; between points it is level.

    Attributes:
        measure: "steps" or "seconds".
        tau: multiple of the fastest optimizer's time.
        share: share of the arenas that the optimizer solves within that multiple.
        arenas: number of arenas.
    """

    measure: str
    optimizer: str
    tau: float
    share: float
    arenas: int


def times_to_target(results: Results, costs: Sequence[Cost]) -> list[TimeToTarget]:
    """The time to target of every arm in an arena with a target, in the order of the suite.

    Seconds are given only where the cost comes from timing trials: final trials of two optimizers ran at different
    times.

    Source: Dahl et al., "Benchmarking Neural Network Training Algorithms", 2023, section 4.
    """
    targets = [(arm, results.study.suite.arenas[arm.arena].target) for arm in results.arms]
    seconds = {(cost.arena, cost.optimizer): cost.train_ms / 1000 for cost in costs if cost.source == "timing"}
    return [_time_to_target(results, arm, target, seconds) for arm, target in targets if target is not None]


def _time_to_target(
    results: Results, arm: ArmResults, target: float, step_seconds: Mapping[tuple[str, str], float]
) -> TimeToTarget:
    suite = results.study.suite
    metric, seeds = suite.arenas[arm.arena].metric, len(arm.final) or (suite.final.looks or [len(suite.final.seeds)])[0]
    row = (arm.arena, arm.optimizer, metric, target, seeds)
    if arm.count("missing", "failed"):
        return TimeToTarget(*row)
    steps = [steps_to_target(suite, run) for run in arm.final] or [None] * seeds  # none: it diverged before
    reached = sum(step is not None for step in steps)
    middle = median(math.inf if step is None else step for step in steps)
    known, seconds = middle < math.inf, step_seconds.get((arm.arena, arm.optimizer))
    return TimeToTarget(
        *row,
        reached,
        reached / seeds,
        middle if known else None,
        middle * seconds if known and seconds is not None else None,
    )


def steps_to_target(suite: Suite, run: Run) -> int | None:
    """The step of the first evaluation that reaches the arena's target; None if none does, and without a target."""
    plan = suite.arenas[run.arena]
    if (target := plan.target) is None:
        return None
    higher, values = suite.facts(run.arena).metrics[plan.metric] == "max", run.curve(plan.metric).items()
    return next((step for step, value in values if (value >= target if higher else value <= target)), None)


def profile(times: Sequence[TimeToTarget]) -> list[ProfilePoint]:
    """The performance profile of each optimizer, by steps, and by seconds where every arm has them.

        rho(tau) = share of the arenas in which the optimizer's median time is at most tau times the fastest one's

    An arena counts when all its arms are known; one that an optimizer does not solve counts against it for every tau.

    Returns:
        For each measure and optimizer a point at every tau at which any profile rises, the first at tau = 1.

    Source: Dolan and More, "Benchmarking optimization software with performance profiles", Math. Program. 2002.
    """
    unknown = {time.arena for time in times if time.reached is None}
    known = [time for time in times if time.arena not in unknown]
    measures = {"steps": {(x.arena, x.optimizer): x.median_steps for x in known}}
    solved = [time for time in known if time.median_steps is not None]
    if solved and all(time.median_seconds is not None for time in solved):
        measures["seconds"] = {(x.arena, x.optimizer): x.median_seconds for x in known}
    return [point for measure, of in measures.items() for point in _profile(measure, of)]


def _profile(measure: str, times: Mapping[tuple[str, str], float | None]) -> list[ProfilePoint]:
    arenas = list(dict.fromkeys(arena for arena, _ in times))
    optimizers = list(dict.fromkeys(optimizer for _, optimizer in times))
    solved = {key: time for key, time in times.items() if time is not None}
    fastest = {arena: min(t for (where, _), t in solved.items() if where == arena) for arena, _ in solved}
    ratios = {key: time / fastest[key[0]] for key, time in solved.items()}

    def share(optimizer: str, tau: float) -> float:
        return sum(ratios.get((arena, optimizer), math.inf) <= tau for arena in arenas) / len(arenas)

    points = [(name, tau) for name in optimizers for tau in sorted({1.0, *ratios.values()})]
    return [ProfilePoint(measure, name, tau, share(name, tau), len(arenas)) for name, tau in points]
