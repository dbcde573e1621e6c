"""Executors run trials. All of them give bitwise equal results on the same CPU."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Protocol

from fairbench.arenas.program import TASK
from fairbench.study.record import WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.place import Place

ReportProgress = Callable[[TrialSpec, int, float], None]
"""Called with the progress of a running trial: steps done, training loss."""


@dataclass(frozen=True)
class PausedTrial:
    """A trial that will be resumed; `unsaved` says why it has no new checkpoint."""

    id: str
    unsaved: str = ""


Ended = WholeRecord | PausedTrial
"""What is left of a trial that runs no longer."""


class Executor(Protocol):
    """Runs trials; use it in a `with` block."""

    def __enter__(self) -> "Executor": ...

    def __exit__(self, *error: object) -> None:
        """End the processes that still run."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a module's function, called in a separate process where trials run."""

    def has_free_slot(self) -> bool:
        """Whether a trial would start at once."""

    def submit(self, spec: TrialSpec, limit: float, resumes: bool = True) -> None:
        """Start a trial with a time limit in seconds; a timing trial is submitted only while no other runs."""

    def collect(self, patience: float = inf) -> list[Ended]:
        """The trials that have ended or paused, after waiting at most `patience` seconds."""

    def pause(self) -> list[Ended]:
        """Stop every trial with a checkpoint; a trial may end before."""


def run_trial(send: Callable[..., None], spec: TrialSpec, place: Place) -> WholeRecord:
    """The record of a trial, which sends "progress", the number of steps done, and the training loss.

    Raises:
        Paused: this process received SIGTERM.
        UsageError: it ran code that its spec does not contain.
    """
    from fairbench.runner.code_identity import LoadedCode
    from fairbench.training.checkpoint import Checkpoint
    from fairbench.training.environment import explain_out_of_memory
    from fairbench.training.program import program_trial
    from fairbench.training.trial import trial

    if spec.arena.task == TASK:
        return program_trial(spec, place, partial(send, "progress"))
    loaded = LoadedCode({**spec.arena.code, **spec.optimizer.code})

    def progress(step: int, loss: float) -> None:
        loaded.check()
        send("progress", step, loss)

    is_timed = spec.stage == "timing"  # its steps are timed without interruption
    checkpoint = Checkpoint(spec, place, loaded.check) if place.checkpoints and not is_timed else None
    with explain_out_of_memory(place.device):
        record = trial(spec, place, progress, checkpoint)
    loaded.check()
    return record
