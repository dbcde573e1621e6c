"""The time and memory that each arm takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults
from fairbench.study.record import TrialCost

STEP_PHASES = ("data", "forward", "backward", "step")
"""The phases of a training step, without evaluation."""


@dataclass(frozen=True)
class Cost:
    """The cost of training an arm; medians over finished trials that had their device to themselves.

    Attributes:
        source: "timing" for trials that alternated with those of the other optimizers, "final" where there are none.
        trials: number of these trials.
        data_ms, forward_ms, backward_ms: milliseconds of this phase of a training step.
        step_ms: milliseconds of clipping, optimizer and schedule in a training step; all of them of a training program.
        train_ms: milliseconds of a training step, the sum of its phases.
        eval_s: seconds of evaluation in a trial.
        trial_s: seconds of a whole trial.
        total_s: seconds of all the arm's trials but the timing, summed.
        data_on: kind of the device that holds the data; "cpu" with training on a GPU if they did not fit there,
            "mixed" if only those of some trials did, "program" if a training program had them.
        peak_memory_mb: highest peak memory of a final trial, in 10^6 bytes.
    """

    arena: str
    optimizer: str
    source: str
    trials: int
    data_ms: float
    forward_ms: float
    backward_ms: float
    step_ms: float
    train_ms: float
    eval_s: float
    trial_s: float
    total_s: float
    data_on: str
    peak_memory_mb: float


def costs(analyses: Analyses) -> list[Cost]:
    """The cost of every arm with a timed trial. No other table would change if the study ran once more."""
    arm_costs = []
    for arm in analyses.results.arms:
        cost = _cost(arm)
        if cost is not None:
            arm_costs.append(cost)
    return arm_costs


def trial_costs(arm: ArmResults) -> list[TrialCost]:
    """The costs of the trials of an arm: of its timing trials, or of its final trials if it has none.

    Some of them may have shared their device.
    """
    runs = arm.timing or arm.final
    return [run.cost for run in runs if run.cost]


def _costs_alone(arm: ArmResults) -> list[TrialCost]:
    """The costs of these trials, without those that shared their device. They make up the cost of the arm."""
    return [cost for cost in trial_costs(arm) if cost.alone]


def step_seconds(cost: TrialCost) -> float:
    """The seconds of the training steps of a trial, all phases together."""
    return cost.seconds.data + cost.seconds.forward + cost.seconds.backward + cost.seconds.step


def step_times(arm: ArmResults) -> list[float]:
    """The milliseconds of a training step in each trial that makes up the cost of an arm."""
    return [1000 * step_seconds(cost) / cost.steps for cost in _costs_alone(arm)]


def _cost(arm: ArmResults) -> Cost | None:
    """The cost of an arm; None if no finished trial had its device to itself."""
    trials = _costs_alone(arm)
    if not trials:
        return None
    phases = {phase: _milliseconds(trials, phase) for phase in STEP_PHASES}
    data_on = {cost.data_on for cost in trials}
    return Cost(
        arena=arm.arena,
        optimizer=arm.optimizer,
        source="timing" if arm.timing else "final",
        trials=len(trials),
        data_ms=phases["data"],
        forward_ms=phases["forward"],
        backward_ms=phases["backward"],
        step_ms=phases["step"],
        train_ms=sum(phases.values()),
        eval_s=median(cost.seconds.eval for cost in trials),
        trial_s=median(cost.seconds.total for cost in trials),
        total_s=sum(run.cost.seconds.total for run in arm.trials if run.cost),
        data_on=data_on.pop() if len(data_on) == 1 else "mixed",
        peak_memory_mb=max(cost.peak_memory_bytes for cost in trials) / 1e6,
    )


def _milliseconds(trials: Sequence[TrialCost], phase: str) -> float:
    """The milliseconds of a phase of a training step, median over trials."""
    seconds: list[float] = [getattr(cost.seconds, phase) / cost.steps for cost in trials]
    return 1000 * median(seconds)
