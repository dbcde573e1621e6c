"""The cost of shocks, against the same training without them: excess loss, steps to recover, final metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Results
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
        calm: name of the arena without shocks.
        n: seeds that finished in both.
        diverged: seeds that diverged under the shocks.
        excess: disturbed minus calm training loss, summed over the steps from the first shock on, mean over seeds.
        recovery: steps from a shock until the loss is within 5% of the calm one, median over shocks and seeds; a shock
            that is not overcome before the next one, or the end, counts with all the steps until then.
        recovered: share of the shocks that were overcome.
        lost: how much worse the final primary metric on the test split is, mean over seeds.
        lost_low, lost_high: end of the 95% confidence interval of `lost`, paired by seed.
    """

    arena: str
    calm: str
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
    """A row for each arm of a disturbed arena that has a calm twin, in the order of the suite."""
    results, plans = analyses.results, analyses.suite.arenas
    planned = ((arm, plans[arm.arena]) for arm in results.arms)
    return [
        _cost(results, x, results.arm(y.tuning_arena, x.optimizer)) for x, y in planned if y.shock and y.tuning_arena
    ]


def _cost(results: Results, arm: ArmResults, calm: ArmResults) -> ShockCost:
    suite, plan = results.study.suite, results.study.suite.arenas[arm.arena]
    twins = {run.seed: run for run in calm.final if run.status == "finished"}
    pairs = [(run, twins[run.seed]) for run in arm.final if run.status == "finished" and run.seed in twins]
    about = (arm.arena, calm.arena, arm.optimizer, len(pairs), arm.count("diverged"))
    if not pairs:
        return ShockCost(*about, note="no seed finished in both")
    starts = shock_starts(plan.shock, plan.steps)
    curves = [(run.loss_curve, twin.loss_curve) for run, twin in pairs]
    waits = [wait for pair in curves for wait in recoveries(*pair, starts)]
    more = fmean(excess(*pair, starts[0]) for pair in curves)
    recovery, recovered = median(steps for steps, _ in waits), fmean(overcome for _, overcome in waits)
    sides, sign = [*zip(*pairs, strict=True)][::-1], suite.sign(arm.arena)  # the calm one first
    finals = ([sign * x for run in side if (x := run.metric("test", plan.metric)) is not None] for side in sides)
    test = paired_t(*finals)
    return ShockCost(*about, more, recovery, recovered, test.difference, test.ci_low, test.ci_high, test.reason)


def excess(disturbed: LossCurve, calm: LossCurve, start: int) -> float:
    """Sum over logged steps s > start of (s - the logged step before) (disturbed(s) - calm(s))."""
    total, before = 0.0, start
    for step in sorted(disturbed.keys() & calm.keys()):
        if step > start:
            total += (step - before) * (disturbed[step] - calm[step])
            before = step
    return total


def recoveries(disturbed: LossCurve, calm: LossCurve, starts: Sequence[int]) -> list[tuple[int, bool]]:
    """For each shock, after a start, the steps until the loss was within 5% of the calm one, and whether it was."""
    logged = sorted(disturbed.keys() & calm.keys())
    waits = []
    for start, end in zip(starts, [*starts[1:], logged[-1] if logged else 0], strict=True):
        back = (x for x in logged if start < x <= end and disturbed[x] - calm[x] <= RECOVERED * abs(calm[x]))
        first = next(back, None)
        waits.append((end - start, False) if first is None else (first - start, True))
    return waits
