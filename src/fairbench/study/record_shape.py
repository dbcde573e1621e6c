"""The declared shape of a record: what every reader of records may rely on. A record may have more keys."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, TypedDict

from fairbench.common.coercion import build

Metrics = Mapping[str, Collection[str]]
"""The names of the metrics of each arena of a study; records of other arenas may have any."""


class Evaluation(TypedDict):
    """An evaluation on the split of selection."""

    step: int
    val: dict[str, float]


class Final(TypedDict, total=False):
    """The metrics at the end of a finished trial; a final trial has those of the test split, too."""

    val: dict[str, float]
    test: dict[str, float]


class Mechanism(TypedDict):
    """See `fairbench.training.mechanism.MechanismLog.to_json`."""

    units: dict[str, str]
    totals: dict[str, float]
    course: list[tuple[int, dict[str, float]]]
    path_length: dict[str, float]
    tensors: dict[str, dict[str, float]]


class Hashes(TypedDict):
    """sha256 of the weights, the batches and the noise."""

    initial_weights: str
    batches: str
    noise: str
    final_weights: str


class Result(TypedDict):
    """The measurements of a trial that did not fail."""

    steps: int
    final: Final | None
    evaluations: list[Evaluation]
    loss_curve: list[tuple[int, float]]
    hashes: Hashes
    parameters: int
    clip_rate: float
    path_length: float | None
    mechanism: Mechanism | None


class Seconds(TypedDict):
    """Seconds by phase, see `fairbench.training.phase_timer`."""

    data: float
    forward: float
    backward: float
    step: float
    eval: float
    total: float


class Cost(TypedDict):
    """What a trial took."""

    seconds: Seconds
    steps: int
    peak_memory_bytes: int
    alone: bool
    data_on: str


class Error(TypedDict):
    """Why a trial failed."""

    type: str
    message: str
    traceback: str


class Training(TypedDict):
    """The parts of the training that records are checked by."""

    steps: int
    selection: str


class Arena(TypedDict):
    """The part of the arena that records are checked by."""

    name: str


class Spec(TypedDict):
    """The parts of the spec that are read from a record."""

    arena: Arena
    optimizer: dict[str, Any]
    training: Training
    stage: str


class WholeRecord(TypedDict):
    """A record; a failed one has an error, every other one result, cost and environment."""

    id: str
    spec: Spec
    status: Literal["finished", "diverged", "failed"]
    result: Result | None
    error: Error | None
    cost: Cost | None
    environment: dict[str, str] | None


class Signature(TypedDict, total=False):
    """Keys that older records do not have."""

    plan: str
    written: str


def checked_record(value: Any, metrics: Metrics) -> dict[str, Any]:
    """A record of plain values.

    Raises:
        ValueError: it has another shape; the message says where.
    """
    record: dict[str, Any] = build(Signature, build(WholeRecord, value, ()), ())
    wanted = {"error"} if record["status"] == "failed" else {"result", "cost", "environment"}
    if wrong := [key for key in ("result", "error", "cost", "environment") if (record[key] is None) == (key in wanted)]:
        raise ValueError(
            f"it is {record['status']}, and its {wrong[0]} {'is missing' if wrong[0] in wanted else 'is there'}"
        )
    if record["result"]:
        if record["status"] == "finished" and not (record["result"]["final"] or {}).get("val"):
            raise ValueError("it is finished, and its final metrics are missing")
        names = metrics.get(record["spec"]["arena"]["name"])
        for measured in _measured(record["result"]):
            if names is not None and measured.keys() != set(names):
                raise ValueError(f"its metrics are {', '.join(measured)}, and not {', '.join(names)}")
    return record


def _measured(result: Mapping[str, Any]) -> Iterator[Mapping[str, float]]:
    """The metrics of every evaluation and at the end."""
    yield from (evaluation["val"] for evaluation in result["evaluations"])
    yield from (result["final"] or {}).values()
