"""What a disturbance of the training cost: excess loss, steps to recover, final metric, beside the calm twin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from scipy import stats

from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.shocks.schedule import shock_starts

RECOVERED = 1.05
"""A training has recovered when its loss is below so many times that of its calm twin."""
Curve = Mapping[int, float]
"""Training loss by logged step."""


@dataclass(frozen=True)
class ShockCost:
    """What the shocks of an arena cost an optimizer; each seed beside the trial without shocks that has the same seed.

    Attributes:
        arena: name of the disturbed arena.
        calm: name of the arena without shocks.
        optimizer: name of the optimizer.
        n: seeds that finished in both.
        diverged: seeds that diverged under the shocks.
        excess: sum over the steps from the first shock on of how much higher the training loss is, mean over seeds.
        recovery: steps from a shock until the loss is within 5% of the calm one, median over shocks and seeds; a shock
            that is not overcome before the next one, or the end, counts with all the steps until then.
        recovered: share of the shocks that were overcome.
        lost: how much worse the final primary metric on the test split is, mean over seeds.
        lost_low: lower end of its 95% confidence interval, None for fewer than two seeds.
        lost_high: its upper end.
    """

    arena: str
    calm: str
    optimizer: str
    n: int
    diverged: int
    excess: float | None
    recovery: float | None
    recovered: float | None
    lost: float | None
    lost_low: float | None
    lost_high: float | None


def shock_costs(results: Results) -> list[ShockCost]:
    """A row for each arm of a disturbed arena that has a calm twin, in the order of the suite."""
    arenas = results.study.suite.arenas
    found = [arm for arm in results.arms if (plan := arenas[arm.arena]).shock and plan.tuned_on]
    return [_cost(results, arm, results.arm(arenas[arm.arena].tuned_on, arm.optimizer)) for arm in found]


def _cost(results: Results, arm: ArmResults, calm: ArmResults) -> ShockCost:
    plan = results.study.suite.arenas[arm.arena]
    minimize = results.study.suite.facts(arm.arena).metrics[plan.metric] == "min"
    twins = {run.seed: run for run in calm.final if run.status == "finished"}
    pairs = [(run, twins[run.seed]) for run in arm.final if run.status == "finished" and run.seed in twins]
    starts = shock_starts(plan.shock, plan.steps)
    curves = [(_curve(run), _curve(twin)) for run, twin in pairs]
    waits = [wait for pair in curves for wait in recoveries(*pair, starts)]
    finals = [(run.metric("test", plan.metric), twin.metric("test", plan.metric)) for run, twin in pairs]
    lost = [x - y if minimize else y - x for x, y in finals if x is not None and y is not None]
    low, high = _interval(lost)
    return ShockCost(
        arena=arm.arena,
        calm=calm.arena,
        optimizer=arm.optimizer,
        n=len(pairs),
        diverged=arm.count("diverged"),
        excess=fmean(excess(*pair, starts[0]) for pair in curves) if curves else None,
        recovery=median(steps for steps, _ in waits) if waits else None,
        recovered=fmean(overcome for _, overcome in waits) if waits else None,
        lost=fmean(lost) if lost else None,
        lost_low=low,
        lost_high=high,
    )


def _curve(run: Run) -> dict[int, float]:
    return {int(step): float(loss) for step, loss in (run.result or {})["loss_curve"]}


def excess(disturbed: Curve, calm: Curve, start: int) -> float:
    """Sum over the steps after `start` of the disturbed minus the calm training loss.

        sum over logged steps s > start of (s - the one before) (disturbed(s) - calm(s))

    Args:
        disturbed: loss by logged step; each stands for the steps since the one before.
        calm: the same of the calm twin.
        start: step before the first disturbed one.
    """
    total, before = 0.0, start
    for step in sorted(disturbed.keys() & calm.keys()):
        if step > start:
            total += (step - before) * (disturbed[step] - calm[step])
            before = step
    return total


def recoveries(disturbed: Curve, calm: Curve, starts: Sequence[int]) -> list[tuple[int, bool]]:
    """Of each shock, how many steps after its start the loss was within 5% of the calm one, and whether it ever was.

    Args:
        disturbed: loss by logged step.
        calm: the same of the calm twin.
        starts: steps before the first disturbed one of each shock, rising.
    """
    logged = sorted(disturbed.keys() & calm.keys())
    found = []
    for start, end in zip(starts, [*starts[1:], logged[-1] if logged else 0], strict=True):
        back = (step for step in logged if start < step <= end and disturbed[step] <= RECOVERED * calm[step])
        first = next(back, None)
        found.append((end - start, False) if first is None else (first - start, True))
    return found


def _interval(values: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """The 95% confidence interval of a mean, by Student's t."""
    if len(values) < 2:
        return None, None
    if max(values) == min(values):
        return values[0], values[0]
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(interval.low), float(interval.high)
