"""Trials one after the other, in this process."""

from types import TracebackType

from fairbench.executors import Record, Report, attempt, resolve
from fairbench.plan import Study
from fairbench.spec import TrialSpec
from fairbench.suite import Suite


class SerialExecutor:
    """Runs each trial in this process.

    Args:
        report: told of the running trial.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._waiting: list[TrialSpec] = []

    def __enter__(self) -> "SerialExecutor":
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to stop."""

    def resolve(self, suite: Suite, device: str) -> Study:
        """`Study.resolve`, here."""
        return resolve(suite, device)

    def has_room(self) -> bool:
        """One trial at a time."""
        return not self._waiting

    def submit(self, spec: TrialSpec) -> None:
        """Put a trial in line."""
        self._waiting.append(spec)

    def collect(self) -> list[Record]:
        """Run the trial in line."""
        return [attempt(self._waiting.pop(0), self._report)]
