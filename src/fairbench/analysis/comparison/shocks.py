"""The cost of shocks, against the same training without shocks: excess loss, steps to recover, final metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.analysis.statistics.significance import paired_t
from fairbench.arenas.shocks.registry import shock_starts

RECOVERED = 0.05
"""A training has recovered when its loss exceeds the undisturbed one by at most this share of its size."""
LossCurve = Mapping[int, float]
"""Training loss by logged step."""


@dataclass(frozen=True)
class ShockCost:
    """The cost of an arena's shocks for an optimizer; each seed against the trial without shocks of the same seed.

    Attributes:
        arena: name of the disturbed arena.
        undisturbed: name of the arena without shocks.
        n: seeds that finished in both.
        diverged: seeds that diverged under the shocks.
        excess: disturbed minus undisturbed training loss, summed over the steps from the first shock on, mean
            over seeds.
        recovery: steps from a shock until the loss is within 5% of the undisturbed one, median over shocks
            and seeds; a shock that is not overcome before the next one, or the end, counts with all the steps
            until then.
        recovered: share of the shocks that were overcome.
        lost: how much worse the final primary metric on the test split is, mean over seeds.
        lost_low, lost_high: end of the 95% confidence interval of `lost`, paired by seed.
    """

    arena: str
    undisturbed: str
    optimizer: str
    n: int
    diverged: int
    excess: float | None = None
    recovery: float | None = None
    recovered: float | None = None
    lost: float | None = None
    lost_low: float | None = None
    lost_high: float | None = None
    note: str = ""


def shock_costs(analyses: Analyses) -> list[ShockCost]:
    """The cost of the shocks for each arm of an arena that has an undisturbed one, in the order of the suite."""
    results = analyses.results
    costs = []
    for arm in results.arms:
        plan = analyses.suite.arenas[arm.arena]
        if plan.shock and plan.tuning_arena:
            undisturbed = results.arm(plan.tuning_arena, arm.optimizer)
            costs.append(_cost(results, arm, undisturbed))
    return costs


def _cost(results: Results, arm: ArmResults, undisturbed: ArmResults) -> ShockCost:
    """The cost of the shocks for an arm, against the same arm in the undisturbed arena."""
    suite = results.study.suite
    plan = suite.arenas[arm.arena]
    undisturbed_runs = {run.seed: run for run in undisturbed.final if run.status == "finished"}
    pairs = []
    for run in arm.final:
        if run.status == "finished" and run.seed in undisturbed_runs:
            pairs.append((run, undisturbed_runs[run.seed]))
    unknown = ShockCost(
        arena=arm.arena,
        undisturbed=undisturbed.arena,
        optimizer=arm.optimizer,
        n=len(pairs),
        diverged=arm.count("diverged"),
    )
    if not pairs:
        return replace(unknown, note="no seed finished in both")
    starts = shock_starts(plan.shock, plan.steps)
    excesses = []
    all_recoveries = []
    for run, calm_run in pairs:
        excesses.append(excess(run.loss_curve, calm_run.loss_curve, starts[0]))
        all_recoveries.extend(recoveries(run.loss_curve, calm_run.loss_curve, starts))
    sign = suite.sign(arm.arena)
    calm_gains = _gains([calm_run for _, calm_run in pairs], plan.metric, sign)
    disturbed_gains = _gains([run for run, _ in pairs], plan.metric, sign)
    lost = paired_t(calm_gains, disturbed_gains)
    return replace(
        unknown,
        excess=fmean(excesses),
        recovery=median(steps for steps, _ in all_recoveries),
        recovered=fmean(overcome for _, overcome in all_recoveries),
        lost=lost.difference,
        lost_low=lost.ci_low,
        lost_high=lost.ci_high,
        note=lost.reason,
    )


def _gains(runs: Sequence[Run], metric: str, sign: float) -> list[float]:
    """The final metrics of some trials on the test split, with the sign that makes higher better."""
    values = [run.metric("test", metric) for run in runs]
    return [sign * value for value in values if value is not None]


def excess(disturbed: LossCurve, undisturbed: LossCurve, start: int) -> float:
    """The excess loss of a disturbed training over the same training without shocks, summed over steps.

        sum over logged steps s > start of (s - s_before) (disturbed(s) - undisturbed(s))

    s_before is the logged step before s, or the start. Steps count that both curves have.
    """
    total = 0.0
    before = start
    for step in sorted(disturbed.keys() & undisturbed.keys()):
        if step > start:
            total += (step - before) * (disturbed[step] - undisturbed[step])
            before = step
    return total


def recoveries(disturbed: LossCurve, undisturbed: LossCurve, starts: Sequence[int]) -> list[tuple[int, bool]]:
    """The recovery of a training from each of its shocks.

    Returns:
        for each shock, the steps until the loss is within 5% of the undisturbed loss, and whether it was before the
        next shock or the last logged step. If it was not, all steps until then count.
    """
    logged = sorted(disturbed.keys() & undisturbed.keys())
    last = logged[-1] if logged else 0
    ends = [*starts[1:], last]
    recovery_of_each_shock = []
    for start, end in zip(starts, ends, strict=True):
        recovery = (end - start, False)
        for step in logged:
            within = disturbed[step] - undisturbed[step] <= RECOVERED * abs(undisturbed[step])
            if start < step <= end and within:
                recovery = (step - start, True)
                break
        recovery_of_each_shock.append(recovery)
    return recovery_of_each_shock
