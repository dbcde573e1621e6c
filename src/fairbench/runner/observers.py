"""Who is told of the course of a study while it runs."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from fairbench.study.records import Record
from fairbench.study.schedule import Outlook
from fairbench.study.trial_spec import TrialSpec


class Observer:
    """Told of the course of a study; each kind has the methods that it needs, the others do nothing."""

    def __enter__(self) -> "Observer":
        """The study begins."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The study ends, or is stopped."""

    def say(self, text: str) -> None:
        """Something that the user should know."""

    def planned(self, outlook: Outlook) -> None:
        """What is done and what is left."""

    def found(self, spec: TrialSpec, read: Callable[[], Record | None]) -> None:
        """A trial has a record already, which can be read."""

    def started(self, spec: TrialSpec) -> None:
        """A trial begins."""

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        """A trial goes on."""

    def paused(self, spec: TrialSpec) -> None:
        """A trial has stopped before its end, and is to be continued."""

    def ended(self, spec: TrialSpec, record: Record) -> None:
        """A trial has ended; its record is on disk."""

    def beat(self) -> None:
        """Time passes: told every few seconds, whatever the trials do."""


class Observers(Observer):
    """Several observers, told one after the other."""

    def __init__(self, *observers: Observer) -> None:
        self._observers, self._entered = observers, ExitStack()

    def __enter__(self) -> "Observers":
        """Enter them all, or none."""
        with ExitStack() as entered:
            for observer in self._observers:
                entered.enter_context(observer)
            self._entered = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave them all, the last one first."""
        self._entered.__exit__(kind, error, trace)

    def say(self, text: str) -> None:
        for observer in self._observers:
            observer.say(text)

    def planned(self, outlook: Outlook) -> None:
        for observer in self._observers:
            observer.planned(outlook)

    def found(self, spec: TrialSpec, read: Callable[[], Record | None]) -> None:
        for observer in self._observers:
            observer.found(spec, read)

    def started(self, spec: TrialSpec) -> None:
        for observer in self._observers:
            observer.started(spec)

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        for observer in self._observers:
            observer.running(spec, step, loss)

    def paused(self, spec: TrialSpec) -> None:
        for observer in self._observers:
            observer.paused(spec)

    def ended(self, spec: TrialSpec, record: Record) -> None:
        for observer in self._observers:
            observer.ended(spec, record)

    def beat(self) -> None:
        for observer in self._observers:
            observer.beat()


@dataclass
class Running:
    """A trial that runs; times in seconds, of the clock of whoever keeps it.

    Attributes:
        label: the trial in a few words.
        steps: its steps in all.
        began: when it began.
        heard: when it was last heard of.
        step: steps done by then.
        loss: the training loss by then; None before the first.
        driver: host and process of the driver that runs it; empty for this one.
    """

    label: str
    steps: int
    began: float
    heard: float
    step: int = 0
    loss: float | None = None
    driver: str = ""

    def left(self, now: float) -> float | None:
        """Seconds that it will still take, at the pace so far; None while that is unknown."""
        if not self.step:
            return None
        pace = (self.heard - self.began) / self.step
        return max(pace * (self.steps - self.step) - (now - self.heard), 0.0)


class Follower(Observer):
    """An observer that keeps what is known of each trial that runs.

    Args:
        clock: seconds now.
        searched: hyperparameters that the suite searches with the rate.
    """

    def __init__(self, clock: Callable[[], float], searched: Iterable[str] = ()) -> None:
        self.clock, self.searched = clock, tuple(searched)
        self.trials: dict[str, Running] = {}

    def started(self, spec: TrialSpec) -> None:
        """A trial begins."""
        now = self.clock()
        self.trials[spec.id] = Running(spec.label(self.searched), spec.training.steps, now, now)

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        """A trial goes on."""
        trial = self.trials[spec.id]
        trial.step, trial.loss, trial.heard = step, loss, self.clock()

    def paused(self, spec: TrialSpec) -> None:
        """A trial has stopped before its end."""
        del self.trials[spec.id]

    def ended(self, spec: TrialSpec, record: Record) -> None:
        """A trial has ended."""
        del self.trials[spec.id]
