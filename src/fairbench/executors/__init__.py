"""Executors: where trials run. All of them give bitwise equal results on the same CPU."""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from fairbench.spec import TrialSpec

Record = dict[str, Any]
Report = Callable[[TrialSpec, int, float], None]
"""Told of a running trial: steps done, training loss."""


@dataclass(frozen=True)
class Place:
    """Where a trial runs; nothing that its numbers depend on, but for the kind of its device.

    Attributes:
        device: torch's name of the device, "cpu" or "cuda:1".
        data_root: where prepared data lie.
        alone: whether no other trial of the study is on that GPU or CPU core meanwhile.
    """

    device: str = "cpu"
    data_root: str = "data"
    alone: bool = True

    @property
    def kind(self) -> str:
        """The kind of the device."""
        return self.device.partition(":")[0]


class Executor(Protocol):
    """Runs trials; use it in a `with` block."""

    def __enter__(self) -> "Executor":
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what still runs."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of a module returns where trials run, apart from all of them."""

    def has_room(self) -> bool:
        """Whether a further trial would start at once."""

    def submit(self, spec: TrialSpec, limit: float) -> None:
        """Start a trial that may take so many seconds."""

    def collect(self) -> list[Record]:
        """Wait for trials to end: the records of one or more."""


def run_trial(tell: Callable[..., None], spec: TrialSpec, place: Place) -> Record:
    """The record of a trial, which tells of its progress."""
    from fairbench.trial import trial

    return trial(spec, place, lambda step, loss: tell("progress", step, loss))


def failure(spec: TrialSpec, kind: str, message: str, trace: str) -> Record:
    """The record of a trial that failed."""
    error = {"type": kind, "message": message, "traceback": trace}
    parts = {"result": None, "cost": None, "environment": None}
    return {"id": spec.id, "spec": spec.as_stored, "status": "failed", "error": error, **parts}
