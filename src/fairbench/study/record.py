"""The type of a record: what a trial measured, and how it is written in its file.

The file of a record is a line of JSON with sorted keys, which has the trial's spec too, and a line with the sha256 of
the first. Numbers read back exactly; none of them is infinite or NaN.
"""

import hashlib
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import force_setattr

from fairbench.common.hashing import canonical_json
from fairbench.common.reading import parse_json
from fairbench.study.trial_spec import TrialSpec

DAMAGED = "damaged record"
"""The type of the error of a trial whose record cannot be read; no class has that name."""
RecordT = TypeVar("RecordT", bound="Record")


class Series(msgspec.Struct, frozen=True, gc=False):
    """Quantities after some steps of a training.

    Attributes:
        steps: the steps, rising.
        values: the values of each quantity, one after each of the steps.
    """

    steps: Sequence[int] = ()
    values: Mapping[str, Sequence[float]] = {}

    def __post_init__(self) -> None:
        """Keep the numbers in arrays, which take a fifth of a list's memory.

        Raises ValueError if their lengths differ.
        """
        try:
            force_setattr(self, "steps", array("q", self.steps))
        except OverflowError as error:
            raise ValueError(f"a step is too large: {error}") from error
        force_setattr(self, "values", {name: array("d", column) for name, column in self.values.items()})
        if any(len(column) != len(self.steps) for column in self.values.values()):
            raise ValueError(f"not each of {', '.join(self.values)} has a value after each of {len(self.steps)} steps")

    def points(self, quantity: str) -> Iterable[tuple[int, float]]:
        """The steps and values of a quantity; no points if the quantity was not measured."""
        return zip(self.steps, self.values.get(quantity, ()), strict=False)


class MechanismReport(msgspec.Struct, frozen=True, gc=False):
    """What the mechanism of an optimizer did, see `fairbench.training.mechanism`.

    Attributes:
        units: the unit of each quantity.
        totals: the total of each quantity over all tensors and steps.
        course: the increase of each quantity since the last reading.
        path_length: the distance that each decay moved the weights, summed over tensors.
        tensors: the total of each quantity in each tensor.
        not_finite: the number of readings of each quantity that were not finite, which count as no increase.
    """

    units: dict[str, str]
    totals: dict[str, float]
    course: Series
    path_length: dict[str, float]
    tensors: dict[str, dict[str, float]]
    not_finite: dict[str, int] = {}


class Details(msgspec.Struct, frozen=True, gc=False):
    """The long parts of a record, which planning does not read.

    Attributes:
        loss_curve: the mean training loss of each window of steps, such as "loss", after its last step.
        evaluations: the metrics on the split of selection; an evaluation with a value that is not finite is left out.
        mechanism: None if the optimizer has none, or was not observed.
        unused: parts of the optimizer that had no effect, see `fairbench.training.unused`.
    """

    loss_curve: Series
    evaluations: Series
    mechanism: MechanismReport | None
    unused: list[str] = []


class Hashes(msgspec.Struct, frozen=True, gc=False):
    """The sha256 of the weights, the batches and the noise."""

    initial_weights: str
    batches: str
    noise: str
    final_weights: str


class Result(msgspec.Struct, frozen=True, gc=False):
    """The measurements of a trial that did not fail, the same in every process on the same kind of machine.

    Attributes:
        steps: number of training steps that were done.
        final: the metrics at the end of a finished trial by split, "val" and in a final trial "test". A program without
            a test split has those of "val" in both.
        parameters: number of trainable parameters.
        clip_rate: share of the steps in which the gradients were clipped.
        gradients_per_step: gradients that a step computes on average: 1, unless the optimizer calls a closure.
        path_length: the length of the path of the weights; None if it was not measured, or is not finite.
    """

    steps: int
    final: dict[str, dict[str, float]] | None
    hashes: Hashes
    parameters: int
    clip_rate: float
    path_length: float | None
    gradients_per_step: float = 1.0


class Seconds(msgspec.Struct, frozen=True, gc=False):
    """Seconds by phase, see `fairbench.training.phase_timer`, and in total."""

    data: float
    forward: float
    backward: float
    step: float
    eval: float
    log: float
    total: float


PROGRAM = "program"
"""What holds the data of a training program, see `TrialCost.data_on`."""


class TrialCost(msgspec.Struct, frozen=True, gc=False):
    """The time and memory that a trial took, which differ in every run.

    Attributes:
        steps: number of training steps that were timed.
        alone: whether the trial had its device to itself.
        data_on: kind of the device that held the data; `PROGRAM` for a training program, all of whose wall time is
            that of the optimizer's step.
        other_load: of a training program, the mean number of cores that other processes used; None if not known.
        throttled: of a training program, how often the processors were throttled; None if not known.
    """

    seconds: Seconds
    steps: int
    peak_memory_bytes: int
    alone: bool
    data_on: str
    other_load: float | None = None
    throttled: int | None = None


class Error(msgspec.Struct, frozen=True, gc=False):
    """Why a trial failed."""

    type: str
    message: str
    traceback: str

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"


class Record(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A record without its long parts.

    A failed record has an error; every other record has a result, a cost and an environment.

    Attributes:
        id: the id of the trial, which is the hash of its spec.
        stage: "sweep", "final" or "timing".
        environment: machine and versions.
        plan: digest of the plan in force. Both `plan` and `written` are empty if no driver wrote the record.
        written: time at which the record was written, in UTC, ISO 8601.
        output: the end of what the trial printed.
    """

    id: str
    stage: str
    status: Literal["finished", "diverged", "failed"]
    result: Result | None = None
    error: Error | None = None
    cost: TrialCost | None = None
    environment: dict[str, str] | None = None
    plan: str = ""
    written: str = ""
    output: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError if a part that the status needs is missing, or if a part is there that it does not allow."""
        wanted = ("error",) if self.status == "failed" else ("result", "cost", "environment")
        for part in ("result", "error", "cost", "environment"):
            if (getattr(self, part) is None) == (part in wanted):
                odd = "is missing" if part in wanted else "is there"
                raise ValueError(f"it is {self.status}, and its {part} {odd}")
        if self.status == "finished" and not (self.result and self.result.final and self.result.final.get("val")):
            raise ValueError("it is finished, and its final metrics are missing")

    @property
    def is_damaged(self) -> bool:
        """Whether it stands in for a damaged record."""
        return self.error is not None and self.error.type == DAMAGED

    def final(self, split: str) -> Mapping[str, float]:
        """The metrics on a split at the end of the trial; empty without any."""
        if self.result is None or self.result.final is None:
            return {}
        return self.result.final.get(split, {})


class WholeRecord(Record, frozen=True, gc=False, kw_only=True):
    """A record with its long parts. The record of a failed trial has no long parts."""

    details: Details | None = None


def failed(spec: TrialSpec, kind: str, message: str, traceback: str) -> WholeRecord:
    """The record of a trial that failed."""
    error = Error(kind, message, traceback)
    return WholeRecord(id=spec.id, stage=spec.stage, status="failed", error=error)


def plain_values(value: Any) -> Any:
    """A record, or a part of a record, as plain JSON values."""
    return msgspec.to_builtins(value, enc_hook=list)  # an array becomes a list


def encode(spec: TrialSpec, record: WholeRecord) -> bytes:
    """The content of a record's file. Raises ValueError for a number that is infinite or NaN."""
    line = canonical_json({**plain_values(record), "spec": spec.to_json()}).encode()
    return b"%b\n%b\n" % (line, hashlib.sha256(line).hexdigest().encode())


def decode(content: bytes, kind: type[RecordT], metrics: Collection[str] | None) -> RecordT:
    """The record in the content of a file.

    Raises:
        ValueError: the content is damaged, or the record has not measured the given metrics; the message says why.
    """
    line, _, checksum = content.partition(b"\n")
    if line == b"{":
        raise ValueError("it is of an earlier version of fairbench, whose records this one cannot read")
    if checksum != b"%b\n" % hashlib.sha256(line).hexdigest().encode():
        raise ValueError("its checksum does not match")
    try:
        record = msgspec.json.decode(line, type=kind)
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError):
        # JSON allows a lone surrogate in a path, and lists nested so deeply that msgspec gives up
        record = msgspec.convert(parse_json(line), kind)
    final = (record.result and record.result.final) or {}
    details = record.details if isinstance(record, WholeRecord) else None
    evaluated = [details.evaluations.values] if details and details.evaluations.steps else []
    for measured in (*final.values(), *evaluated):
        if metrics is not None and measured.keys() != set(metrics):
            raise ValueError(f"its metrics are {', '.join(measured)}, and not {', '.join(metrics)}")
    return record
