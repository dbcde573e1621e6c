"""The time and memory that each arm takes."""

from dataclasses import dataclass
from statistics import median

from fairbench.analysis.results import ArmResults, Results

STEP_PHASES = ("data", "forward", "backward", "step")
"""The phases of a training step; evaluation is none."""


@dataclass(frozen=True)
class Cost:
    """The cost of training an arm; medians over finished trials that shared their device with no other.

    Attributes:
        source: "timing" for trials that took turns with those of the other optimizers, "final" where there are none.
        trials: trials that are counted.
        data_ms: milliseconds per training step to get the batch.
        forward_ms: milliseconds per step of the forward pass.
        backward_ms: milliseconds per step of the backward pass.
        step_ms: milliseconds per step of clipping, optimizer and schedule.
        train_ms: milliseconds per training step in all.
        eval_s: seconds of evaluation in a trial.
        trial_s: seconds of a trial in all.
        total_s: seconds of all the arm's trials, both stages, summed.
        data_on: kind of the device that holds the data; "cpu" with training on a GPU if they did not fit there.
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


def costs(results: Results) -> list[Cost]:
    """The cost of every arm with a final trial; alone among all tables it is not the same twice."""
    return [cost for arm in results.arms if (cost := _cost(arm)) is not None]


def _cost(arm: ArmResults) -> Cost | None:
    costly = [run.record for run in arm.timing or arm.final if run.record and run.record["cost"]]
    records = [record for record in costly if record["cost"]["alone"]]
    everything = [run.record for run in arm.runs if run.record and run.record["cost"]]
    if not records:
        return None

    def per_step(*phases: str) -> float:
        seconds = [sum(r["cost"]["seconds"][phase] for phase in phases) / r["cost"]["steps"] for r in records]
        return float(1000 * median(seconds))

    def per_trial(phase: str) -> float:
        return float(median(record["cost"]["seconds"][phase] for record in records))

    return Cost(
        arm.arena,
        arm.optimizer,
        source="timing" if arm.timing else "final",
        trials=len(records),
        data_ms=per_step("data"),
        forward_ms=per_step("forward"),
        backward_ms=per_step("backward"),
        step_ms=per_step("step"),
        train_ms=per_step(*STEP_PHASES),
        eval_s=per_trial("eval"),
        trial_s=per_trial("total"),
        total_s=sum(record["cost"]["seconds"]["total"] for record in everything),
        data_on=" ".join(sorted({record["cost"]["data_on"] for record in records})),
        peak_memory_mb=max(record["cost"]["peak_memory_bytes"] for record in records) / 1e6,
    )
