"""Executors run trials. All of them give bitwise equal results on the same CPU."""

from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from fairbench.study.records import Record
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.place import Checkpointing, Place

ReportProgress = Callable[[TrialSpec, int, float], None]
"""Called with the progress of a running trial: steps done, training loss."""


class Executor(Protocol):
    """Runs trials; use it in a `with` block."""

    def __enter__(self) -> "Executor": ...

    def __exit__(self, *error: object) -> None:
        """End the processes that still run."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a module's function, called in a separate process where trials run.

        Raises:
            UsageError: the function raised one, or did not return.
        """

    def has_free_slot(self) -> bool:
        """Whether a trial would start at once."""

    def submit(self, spec: TrialSpec, limit: float, resumes: bool = True) -> None:
        """Start a trial with a time limit in seconds; a timing trial is submitted only while no other runs."""

    def collect(self, patience: float = inf) -> list[Record]:
        """The records of trials that have ended, after waiting at most `patience` seconds; see `paused`."""

    def pause(self) -> list[Record]:
        """Stop every trial with a checkpoint: for each its `paused` record, or its record if it ended."""


def paused(spec: TrialSpec, unsaved: str = "") -> Record:
    """The placeholder for the record of a trial that will be resumed; `unsaved` says why it has no new checkpoint."""
    return {"id": spec.id, "status": "paused", "unsaved": unsaved}


def run_trial(
    send: Callable[..., None], spec: TrialSpec, place: Place, checkpointing: Checkpointing | None = None
) -> Record:
    """The record of a trial.

    Args:
        send: called with "progress", the number of steps done, and the training loss.
        checkpointing: where it writes checkpoints and resumes from; None for neither.

    Raises:
        Paused: this process received SIGTERM.
        UsageError: it ran code that its spec does not contain.
        OutOfMemory: the trial does not fit into the GPU's memory.
    """
    from fairbench.runner.code_identity import LoadedCode
    from fairbench.training.checkpoint import Checkpoint
    from fairbench.training.environment import explain_out_of_memory
    from fairbench.training.trial import trial

    loaded = LoadedCode({**spec.arena.code, **spec.optimizer.code})

    def progress(step: int, loss: float) -> None:
        loaded.check()
        send("progress", step, loss)

    is_timed = spec.stage == "timing"  # its steps are timed without interruption
    checkpoint = Checkpoint(spec, place, checkpointing) if checkpointing and not is_timed else None
    if checkpoint:
        checkpoint.before_write = loaded.check
    with explain_out_of_memory(place.device):
        record = trial(spec, place, progress, checkpoint)
    loaded.check()
    return record


def failure(spec: TrialSpec, kind: str, message: str, trace: str) -> Record:
    """The record of a trial that failed."""
    error = {"type": kind, "message": message, "traceback": trace}
    parts = {"result": None, "cost": None, "environment": None}
    return {"id": spec.id, "spec": spec.as_stored, "status": "failed", "error": error, **parts}
