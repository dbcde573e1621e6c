"""The record of a trial of a training program, made from its reports and its fingerprints."""

import hashlib
import math
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from fairbench.arenas.program import ProgramOptions
from fairbench.common.formatting import some
from fairbench.study.record import Details, Hashes, MechanismReport, Result, Seconds, Series, TrialCost, WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.environment import environment
from fairbench.training.program_results import Reported
from fairbench.training.result_files import WrongResults

FINGERPRINTS = "fingerprints-*.json"
"""The files in a trial's folder with the fingerprints of each rank."""


class Fingerprints(msgspec.Struct, frozen=True):
    """The facts of a trial that a program has shown by `fairbench.trial`; empty if it does not use that module.

    `fairbench.trial.fingerprints` collects them.
    """

    initial_weights: str = ""
    batches: str = ""
    final_weights: str = ""
    parameters: int = 0
    path_length: float | None = None
    mechanism: MechanismReport | None = None

    @classmethod
    def read(cls, folder: Path) -> "Fingerprints":
        """The fingerprints of a trial: those of the first rank, with a hash of the batches of all ranks."""
        files = sorted(folder.glob(FINGERPRINTS), key=lambda file: int(file.stem.partition("-")[2]))
        ranks = [msgspec.json.decode(file.read_bytes(), type=cls) for file in files]
        if not ranks:
            return cls()
        if len(ranks) == 1:
            return ranks[0]
        batches = [rank.batches for rank in ranks]
        joined = ""
        if all(batches):
            joined = hashlib.sha256(" ".join(batches).encode()).hexdigest()
        return msgspec.structs.replace(ranks[0], batches=joined)


def program_record(
    spec: TrialSpec,
    slot: DeviceSlot,
    options: ProgramOptions,
    reported: Reported,
    fingerprints: Fingerprints,
    seconds: float,
) -> WholeRecord:
    """The record of a program that has ended without an error.

    Args:
        spec: the trial.
        slot: where the trial ran.
        options: the options of the program.
        reported: the reports of the program.
        fingerprints: the fingerprints of the trial.
        seconds: the duration of the last attempt.

    Raises:
        WrongResults: the reports lack metrics at the last step, or go beyond it.
    """
    steps = spec.training.steps
    last = reported.last
    one_split = spec.training.selection == "test" or spec.training.decides == "val"
    tested = "val" if one_split else "test"
    status: Literal["finished", "diverged"] = "finished" if reported.finite else "diverged"
    final: dict[str, dict[str, float]] | None = None
    if last > steps:
        raise WrongResults(f"it reported step {last}, and its trial has {steps}; {{steps}} in the command tells it")
    if status == "finished":
        final = {"val": _at_end("val", reported, steps, options)}
        if spec.stage == "final":
            final["test"] = _at_end(tested, reported, steps, options)
    result = Result(
        steps=steps if status == "finished" else max(last, 1),
        final=final,
        hashes=Hashes(fingerprints.initial_weights, fingerprints.batches, "", fingerprints.final_weights),
        parameters=fingerprints.parameters,
        clip_rate=0.0,
        path_length=fingerprints.path_length,
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    phases = Seconds(data=0.0, forward=0.0, backward=0.0, step=seconds, eval=0.0, log=0.0, total=seconds)
    losses = reported.rows({"loss": "train/loss"}, steps)
    metrics = reported.rows({metric: f"val/{metric}" for metric in options.metrics}, steps)
    details = Details(_series(losses), _series(metrics), fingerprints.mechanism)
    return WholeRecord(
        id=spec.id,
        stage=spec.stage,
        status=status,
        result=result,
        cost=TrialCost(
            seconds=phases,
            steps=result.steps,
            peak_memory_bytes=peak,
            alone=slot.alone,
            data_on="program",
        ),
        environment=environment(slot.device),
        details=details,
    )


def _series(rows: Mapping[int, Mapping[str, float]]) -> Series:
    """The values after each step, as a record has them. A step with a value that is not finite is left out."""
    finite = {step: row for step, row in rows.items() if all(map(math.isfinite, row.values()))}
    columns: dict[str, list[float]] = {}
    for row in finite.values():
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return Series(list(finite), columns)


def _at_end(split: str, reported: Reported, steps: int, options: ProgramOptions) -> dict[str, float]:
    """The metrics of a split after the last step. Raises `WrongResults` if they were not reported."""
    rows = reported.rows({metric: f"{split}/{metric}" for metric in options.metrics}, steps)
    if steps in rows:
        return rows[steps]
    names = ", ".join(options.names[f"{split}/{metric}"] for metric in options.metrics)
    found = "there is none"
    if rows:
        found = f"the last is of step {max(rows)}"
    elif reported.names:
        found = f"there is none among {some(sorted(reported.names))}"
    advice = "report it at the end"
    if split == "test":
        advice += '; without a test split, breaks = ["split"] in the suite takes the validation split'
    raise WrongResults(f"{options.results} has no {names} at step {steps}: {found}; {advice}")
