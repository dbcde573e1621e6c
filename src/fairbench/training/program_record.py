"""The record of a trial of a training program, made from its reports and its fingerprints."""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from fairbench.arenas.program import ProgramOptions
from fairbench.study.record import (
    PROGRAM,
    Details,
    Hashes,
    MechanismReport,
    Result,
    Seconds,
    Series,
    TrialCost,
    WholeRecord,
)
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.environment import environment_of_program
from fairbench.training.machine_load import Load
from fairbench.training.missing_metric import missing_metric
from fairbench.training.program_results import Reported, finite_values
from fairbench.training.result_names import WrongResults

FINGERPRINTS = "fingerprints-*.json"
"""The files in a trial's folder with the fingerprints of each rank."""


class Fingerprints(msgspec.Struct, frozen=True):
    """The facts of a trial that a program has shown by `fairbench.trial`; empty if it does not use that module.

    `fairbench.trial.fingerprints` collects these facts.
    """

    initial_weights: str = ""
    batches: str = ""
    final_weights: str = ""
    parameters: int = 0
    path_length: float | None = None
    mechanism: MechanismReport | None = None

    @classmethod
    def read(cls, folder: Path) -> "Fingerprints":
        """The fingerprints of a trial: those of the first rank, with a hash of the batches of all ranks.

        The hash is empty if a rank has shown no batches.
        """
        files = sorted(folder.glob(FINGERPRINTS), key=_rank)
        ranks = [msgspec.json.decode(file.read_bytes(), type=cls) for file in files]
        if not ranks:
            return cls()
        if len(ranks) == 1:
            return ranks[0]
        batches = [rank.batches for rank in ranks]
        hash_of_all = ""
        if all(batches):
            hash_of_all = hashlib.sha256(" ".join(batches).encode()).hexdigest()
        return msgspec.structs.replace(ranks[0], batches=hash_of_all)


def _rank(file: Path) -> int:
    """The rank in the name of a file with fingerprints."""
    _, _, rank = file.stem.partition("-")
    return int(rank)


def program_record(
    spec: TrialSpec,
    slot: DeviceSlot,
    options: ProgramOptions,
    reported: Reported,
    fingerprints: Fingerprints,
    *,
    seconds: float,
    peak_memory_bytes: int,
    load: Load | None,
) -> WholeRecord:
    """The record of a program that has ended without an error. A program may end before its last step.

    Args:
        spec: the trial.
        slot: where the trial ran.
        options: the options of the program.
        reported: the reports of the program.
        fingerprints: the fingerprints of the trial.
        seconds: the duration of the last attempt.
        peak_memory_bytes: the most memory of a process of the last attempt.
        load: the load of the machine meanwhile; None if the trial had more than one attempt.

    Raises:
        WrongResults: the reports lack metrics, or go beyond the last step. A program that trains as long as it always
            does may go beyond it.
    """
    steps = spec.training.steps
    if reported.last > steps and not options.own_length:
        raise WrongResults(_beyond(reported, steps))
    status: Literal["finished", "diverged"] = "diverged"
    if reported.finite:
        status = "finished"
    shift = 0
    if not options.own_length:
        shift = _shift(reported, steps)
    result = _result(spec, options, reported, fingerprints, shift)
    phases = Seconds(data=0.0, forward=0.0, backward=0.0, step=seconds, eval=0.0, log=0.0, total=seconds)
    losses = reported.rows({"loss": "train/loss"})
    metrics = reported.rows({metric: f"val/{metric}" for metric in options.metrics})
    details = Details(_series(losses, shift), _series(metrics, shift), fingerprints.mechanism)
    return WholeRecord(
        id=spec.id,
        stage=spec.stage,
        status=status,
        result=result,
        cost=TrialCost(
            seconds=phases,
            steps=result.steps,
            peak_memory_bytes=peak_memory_bytes,
            alone=slot.alone,
            data_on=PROGRAM,
            other_load=load.others if load else None,
            throttled=load.throttled if load else None,
        ),
        environment=environment_of_program(slot.device),
        details=details,
    )


def _result(
    spec: TrialSpec, options: ProgramOptions, reported: Reported, fingerprints: Fingerprints, shift: int
) -> Result:
    """The result of a program. `shift` is what is added to a reported step, see `_shift`."""
    done = max(reported.last + shift, 1)
    final = None
    if reported.finite:
        final = _final_metrics(spec, reported, options)
        if reported.counted and not options.own_length:
            done = spec.training.steps  # the reports have no steps, and the program has ended
    return Result(
        steps=done,
        final=final,
        hashes=Hashes(
            initial_weights=fingerprints.initial_weights,
            batches=fingerprints.batches,
            noise="",
            final_weights=fingerprints.final_weights,
        ),
        parameters=fingerprints.parameters,
        clip_rate=0.0,
        path_length=fingerprints.path_length,
    )


def _beyond(reported: Reported, steps: int) -> str:
    """The message on a program that reported a step beyond the last one."""
    remedy = (
        "{steps} in the command, or trial.steps in the program, tells it; "
        'if it counts something else, such as epochs, keys = { step = "epoch" } says so; '
        "without {steps} and --steps it may train as long as it does"
    )
    return f"it reported step {reported.last}, and its trial has {steps}; {remedy}"


def _shift(reported: Reported, steps: int) -> int:
    """What is added to a reported step to give the number of steps done: 1 if the program counts from 0, so that its
    last step is one less than the number of steps.
    """
    counts_from_zero = reported.last == steps - 1 and reported.first != 1
    return int(counts_from_zero and not reported.counted)


def _series(rows: Mapping[int, Mapping[str, float]], shift: int) -> Series:
    """The values after each step, as a record has them. A step with a value that is not finite is left out."""
    finite = {step: row for step, row in rows.items() if all(map(math.isfinite, row.values()))}
    columns: dict[str, list[float]] = {}
    for row in finite.values():
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return Series([step + shift for step in finite], columns)


def _final_metrics(spec: TrialSpec, reported: Reported, options: ProgramOptions) -> dict[str, dict[str, float]]:
    """The metrics of a finished trial by split: "val", and in a final trial "test".

    Where one split serves for selection and for the report, the program reports it as "val", and both have its values.
    """
    steps = _deciding_steps(reported, options)
    final = {"val": _metrics_at(steps, "val", reported, options, spec.arena.name)}
    if spec.stage == "final":
        has_one_split = spec.training.selection == "test" or spec.training.decides == "val"
        tested = "val" if has_one_split else "test"
        final["test"] = _metrics_at(steps, tested, reported, options, spec.arena.name)
    return final


def _deciding_steps(reported: Reported, options: ProgramOptions) -> dict[str, int | None]:
    """For each metric the step whose value decides: that of the best validation value, or None for the last one."""
    steps: dict[str, int | None] = {}
    for metric, direction in options.metrics.items():
        column = finite_values(reported.values.get(f"val/{metric}", {}))
        steps[metric] = None
        if options.at == "best" and column:
            best = min if direction == "min" else max
            steps[metric] = best(column, key=lambda step: column[step])
    return steps


def _metrics_at(
    steps: Mapping[str, int | None], split: str, reported: Reported, options: ProgramOptions, arena: str
) -> dict[str, float]:
    """The metrics of a split of an arena, each at its deciding step, see `_deciding_steps`.

    If the last step decides, what the program has reported as its result goes before its last value. A split without a
    value at the deciding step, as one that is evaluated only once, has its last value.

    Raises:
        MissingMetric: a metric of the split was not reported.
        WrongResults: a value of it is unclear.
    """
    metrics = {}
    for metric, step in steps.items():
        key = f"{split}/{metric}"
        column = reported.values.get(key)
        if key in reported.unclear:
            remedy = "print it alone, or say which number counts: --metric-pattern 'REGEX' with one group"
            raise WrongResults(f"{reported.unclear[key]}; {remedy}")
        if not column:
            raise missing_metric(key, reported, options, arena)
        last_value = column[max(column)]
        if step is None:
            metrics[metric] = reported.result.get(key, last_value)
        else:
            metrics[metric] = column.get(step, last_value)
    return metrics
