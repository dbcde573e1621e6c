"""The time and memory that each arm takes."""

from dataclasses import dataclass
from statistics import median

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults
from fairbench.study.records import Record

STEP_PHASES = ("data", "forward", "backward", "step")
"""The phases of a training step, without evaluation."""


@dataclass(frozen=True)
class Cost:
    """The cost of training an arm; medians over finished trials that had their device to themselves.

    Attributes:
        source: "timing" for trials that alternated with those of the other optimizers, "final" where there are none.
        trials: number of these trials.
        data_ms, forward_ms, backward_ms: milliseconds of this phase of a training step.
        step_ms: milliseconds of clipping, optimizer and schedule in a training step.
        train_ms: milliseconds of a training step, the sum of its phases.
        eval_s: seconds of evaluation in a trial.
        trial_s: seconds of a whole trial.
        total_s: seconds of all the arm's trials but the timing, summed.
        data_on: kind of the device that holds the data; "cpu" with training on a GPU if they did not fit there,
            "mixed" if only those of some trials did.
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
    """The cost of every arm with a final trial; the only table that another run of the study would change."""
    return [cost for arm in analyses.results.arms if (cost := _cost(arm)) is not None]


def timed_records(arm: ArmResults) -> list[Record]:
    """The records with the times that make up the cost of an arm, if they had their device to themselves."""
    return [run.record for run in arm.timing or arm.final if run.record and run.record["cost"]]


def _alone(arm: ArmResults) -> list[Record]:
    return [record for record in timed_records(arm) if record["cost"]["alone"]]


def step_times(arm: ArmResults) -> list[float]:
    """The milliseconds of a training step in each trial that makes up the cost of an arm."""
    found = [record["cost"] for record in _alone(arm)]
    return [1000 * sum(cost["seconds"][phase] for phase in STEP_PHASES) / cost["steps"] for cost in found]


def _cost(arm: ArmResults) -> Cost | None:
    records = _alone(arm)
    if not records:
        return None

    def per_step(phase: str) -> float:
        return float(1000 * median(r["cost"]["seconds"][phase] / r["cost"]["steps"] for r in records))

    def per_trial(phase: str) -> float:
        return float(median(record["cost"]["seconds"][phase] for record in records))

    kinds = {record["cost"]["data_on"] for record in records}
    phases = {f"{phase}_ms": per_step(phase) for phase in STEP_PHASES}
    return Cost(
        arm.arena,
        arm.optimizer,
        source="timing" if arm.timing else "final",
        trials=len(records),
        **phases,
        train_ms=sum(phases.values()),
        eval_s=per_trial("eval"),
        trial_s=per_trial("total"),
        total_s=sum(x.record["cost"]["seconds"]["total"] for x in arm.runs if x.record and x.record["cost"]),
        data_on=kinds.pop() if len(kinds) == 1 else "mixed",
        peak_memory_mb=max(record["cost"]["peak_memory_bytes"] for record in records) / 1e6,
    )
