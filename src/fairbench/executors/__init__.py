"""Executors: where trials run. All of them give bitwise equal results on the same CPU."""

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from fairbench.errors import UsageError
from fairbench.plan import Study
from fairbench.spec import TrialSpec
from fairbench.suite import Suite

Record = dict[str, Any]
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

    def resolve(self, suite: Suite, device: str) -> Study:
        """`Study.resolve`, where the heavy libraries are loaded anyway."""

    def has_room(self) -> bool:
        """Whether a further trial would start at once."""

    def submit(self, spec: TrialSpec) -> None:
        """Start a trial, or put it in line."""

    def collect(self) -> list[Record]:
        """Wait for trials to end: the records of one or more."""


def resolve(suite: Suite, device: str) -> Study:
    """`Study.resolve`; whatever goes wrong is a UsageError, which passes between processes."""
    try:
        return Study.resolve(suite, device)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"cannot load suite {suite.name}:\n{traceback.format_exc()}") from error


def attempt(spec: TrialSpec, report: Report) -> Record:
    """Run a trial; an exception fails this trial only, and its record keeps the traceback."""
    try:
        from fairbench.trial import trial

        return trial(spec, lambda step, loss: report(spec, step, loss))
    except Exception as error:
        return failure(spec, type(error).__name__, str(error), traceback.format_exc())


def failure(spec: TrialSpec, kind: str, message: str, trace: str) -> Record:
    """The record of a trial that failed."""
    error = {"type": kind, "message": message, "traceback": trace}
    parts = {"result": None, "cost": None, "environment": None}
    return {"id": spec.id, "spec": spec.to_json(), "status": "failed", "error": error, **parts}
