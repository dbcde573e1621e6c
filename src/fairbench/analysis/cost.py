"""The time and memory that each arm takes, measured by timing trials alone.

A final trial observes the mechanism of its optimizer, which takes time, and the arms of a study train at different
times of day. In timing trials nothing is observed, and the optimizers take turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults
from fairbench.study.record import PROGRAM, TrialCost

STEP_PHASES = ("data", "forward", "backward", "step")
"""The phases of a training step, without evaluation."""


@dataclass(frozen=True)
class Cost:
    """The cost of training an arm: medians over finished timing trials that had their device to themselves.

    Attributes:
        trials: number of these trials. Without one, all values but `total_s` and `data_on` are None.
        data_ms, forward_ms, backward_ms: milliseconds of this phase of a training step.
        step_ms: milliseconds of clipping, optimizer and schedule in a training step; all of them of a training program.
        train_ms: milliseconds of a training step, the sum of its phases.
        eval_s: seconds of the evaluation of a timing trial.
        total_s: seconds of all trials of the arm that are not timing trials, with the observation of the mechanism.
        data_on: kind of the device that holds the data; `PROGRAM` if a training program had them. With training on a
            GPU it is "cpu" if the data did not fit there, and "mixed" if they fitted in some trials only.
        peak_memory_mb: highest peak memory of a timing trial, in 10^6 bytes: on a GPU that of torch's tensors, on a CPU
            that of the whole process with its libraries.
    """

    arena: str
    optimizer: str
    trials: int
    data_ms: float | None
    forward_ms: float | None
    backward_ms: float | None
    step_ms: float | None
    train_ms: float | None
    eval_s: float | None
    total_s: float
    data_on: str
    peak_memory_mb: float | None

    @property
    def is_of_program(self) -> bool:
        """Whether the arm is a training program, of whose step only the whole time is known, not its phases."""
        return self.data_on == PROGRAM


def costs(analyses: Analyses) -> list[Cost]:
    """The cost of every arm that has a trial. Costs are measured: they change when the same study runs once more."""
    arm_costs = []
    for arm in analyses.results.arms:
        cost = _cost(arm)
        if cost is not None:
            arm_costs.append(cost)
    return arm_costs


def is_timed(analyses: Analyses) -> bool:
    """Whether timing trials tell the step time of an arm."""
    return any(cost.trials for cost in analyses.of(costs))


def timing_costs(arm: ArmResults) -> list[TrialCost]:
    """The costs of the timing trials of an arm. Some of them may have shared their device."""
    return [run.cost for run in arm.timing if run.cost]


def _costs_alone(arm: ArmResults) -> list[TrialCost]:
    """The costs of the timing trials that had their device to themselves."""
    return [cost for cost in timing_costs(arm) if cost.alone]


def step_seconds(cost: TrialCost) -> float:
    """The seconds of the training steps of a trial, all phases together."""
    return cost.seconds.data + cost.seconds.forward + cost.seconds.backward + cost.seconds.step


def step_times(arm: ArmResults) -> list[float]:
    """The milliseconds of a training step in each timing trial that had its device to itself."""
    return [1000 * step_seconds(cost) / cost.steps for cost in _costs_alone(arm)]


def _cost(arm: ArmResults) -> Cost | None:
    """The cost of an arm; None if no trial of it has finished."""
    trials = [run.cost for run in arm.trials if run.cost]
    timed = _costs_alone(arm)
    if not trials and not timed:
        return None
    phases = {phase: _milliseconds(timed, phase) for phase in STEP_PHASES}
    train_ms = None
    eval_s = None
    peak_memory_mb = None
    if timed:
        train_ms = sum(milliseconds for milliseconds in phases.values() if milliseconds is not None)
        eval_s = median(cost.seconds.eval for cost in timed)
        peak_memory_mb = max(cost.peak_memory_bytes for cost in timed) / 1e6
    devices = {cost.data_on for cost in [*trials, *timed]}
    return Cost(
        arena=arm.arena,
        optimizer=arm.optimizer,
        trials=len(timed),
        data_ms=phases["data"],
        forward_ms=phases["forward"],
        backward_ms=phases["backward"],
        step_ms=phases["step"],
        train_ms=train_ms,
        eval_s=eval_s,
        total_s=sum(cost.seconds.total for cost in trials),
        data_on=devices.pop() if len(devices) == 1 else "mixed",
        peak_memory_mb=peak_memory_mb,
    )


def _milliseconds(timed: Sequence[TrialCost], phase: str) -> float | None:
    """The milliseconds of a phase of a training step, median over timing trials; None without one."""
    if not timed:
        return None
    seconds: list[float] = [getattr(cost.seconds, phase) / cost.steps for cost in timed]
    return 1000 * median(seconds)
