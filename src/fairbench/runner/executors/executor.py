"""The interface of executors, which run trials for a trial loop, each in a separate process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any, Protocol

from fairbench.study.record import WholeRecord
from fairbench.study.trial_spec import TrialSpec

CALL_LIMIT = 600.0
"""Seconds that a call may take: to load data and build models, or to take two steps in every arena."""
PAUSE_LIMIT = 120.0
"""Seconds that paused trials have to complete their current step and write a checkpoint."""

NO_CHANGES: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class PausedTrial:
    """A trial that will be resumed. `unsaved` says why it has no new checkpoint; it is empty if it has one."""

    id: str
    unsaved: str = ""


Ended = WholeRecord | PausedTrial
"""The outcome of a trial that no longer runs."""


class Executor(Protocol):
    """Runs trials, and the calls of the preflight, in a `with` block. The end of the block ends what still runs."""

    def __enter__(self) -> "Executor":
        """Get ready to run trials."""

    def __exit__(self, *error: object) -> None:
        """End everything that still runs."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a module's function, called in a separate process where trials run."""

    def has_free_slot(self) -> bool:
        """Whether a trial would start at once."""

    def submit(self, spec: TrialSpec, limit: float, changes: Mapping[str, Any] = NO_CHANGES) -> None:
        """Start a trial with a time limit in seconds; a timing trial is submitted only while no other runs.

        `changes` are values of attributes of its slot, see `Preflight.changes_of_slot`.
        """

    def collect(self, patience: float = inf) -> list[Ended]:
        """The trials that have ended or paused, after waiting at most `patience` seconds."""

    def pause(self) -> list[Ended]:
        """Stop every running trial with a checkpoint.

        Returns the paused trials, and trials that have ended meanwhile.
        """
