"""Executors: where trials run. All of them give bitwise equal results on the same CPU."""

from collections.abc import Callable
from math import inf
from types import TracebackType
from typing import Any, Protocol

from fairbench.study.records import Record
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.place import Checkpointing, Place

Report = Callable[[TrialSpec, int, float], None]
"""Told of a running trial: steps done, training loss."""


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

    def submit(self, spec: TrialSpec, limit: float, resumes: bool = True) -> None:
        """Start a trial that may take so many seconds; `resumes` says whether it can go on from a checkpoint."""

    def collect(self, patience: float = inf) -> list[Record]:
        """Wait for trials to end, for so many seconds at most: their records, see `paused`."""

    def pause(self) -> list[Record]:
        """Have every trial write a checkpoint and stop: what `paused` says of each, or its record if it ended."""


def paused(spec: TrialSpec, unsaved: str = "") -> Record:
    """What stands for the record of a trial that has written a checkpoint and stopped: it is to be continued.

    Args:
        spec: the trial.
        unsaved: why what it did since an earlier checkpoint could not be saved; empty if it could.
    """
    return {"id": spec.id, "status": "paused", "unsaved": unsaved}


def run_trial(
    tell: Callable[..., None], spec: TrialSpec, place: Place, checkpointing: Checkpointing | None = None
) -> Record:
    """The record of a trial, which tells of its progress.

    Args:
        tell: called with "progress", how many steps are done, and the training loss.
        spec: the trial.
        place: where it runs.
        checkpointing: where it goes on from, and what it keeps; None for neither.

    Raises:
        Paused: this process was sent SIGTERM; without checkpoints that is not heard.
        OutOfMemory: the GPU has no room for it.
    """
    from fairbench.training.checkpoint import Checkpoint
    from fairbench.training.environment import naming_lack_of_memory
    from fairbench.training.trial import trial

    # The time of a step is taken in one go.
    kept = checkpointing if spec.stage != "timing" else None
    checkpoint = Checkpoint(spec, place, kept) if kept else None
    with naming_lack_of_memory(place.device):
        return trial(spec, place, lambda step, loss: tell("progress", step, loss), checkpoint)


def failure(spec: TrialSpec, kind: str, message: str, trace: str) -> Record:
    """The record of a trial that failed."""
    error = {"type": kind, "message": message, "traceback": trace}
    parts = {"result": None, "cost": None, "environment": None}
    return {"id": spec.id, "spec": spec.as_stored, "status": "failed", "error": error, **parts}
