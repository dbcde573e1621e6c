"""Observers of a running study."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairbench.study.record import WholeRecord
from fairbench.study.trial_queue import Progress
from fairbench.study.trial_spec import TrialSpec


class Observer:
    """Receives the events of a study. Subclasses override the methods that they need."""

    def __enter__(self) -> "Observer":
        """The study starts."""
        return self

    def __exit__(self, *error: object) -> None:
        """The study ends, or is stopped."""

    def say(self, text: str) -> None:
        """Show a message to the user. The text may be empty."""

    def measured(self, step_seconds: Mapping[str, float], start: float) -> None:
        """The seconds of a training step in each arena have been measured, before any trial.

        `start` are the seconds from the start of a trial of a program to its first step.
        """

    def planned(self, progress: Progress) -> None:
        """The progress of the study has changed."""

    def started(self, spec: TrialSpec, label: str) -> None:
        """A trial starts or resumes; `label` names it in messages."""

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        """A trial has done `step` steps; `loss` is its training loss."""

    def paused(self, spec: TrialSpec) -> None:
        """A trial has stopped before its end, and will be resumed."""

    def ended(self, spec: TrialSpec, record: WholeRecord) -> None:
        """A trial has ended; its record is on disk."""

    def beat(self) -> None:
        """Called every few seconds, whatever the trials do."""


class Observers(Observer):
    """Passes each event to several observers, one after the other. Their `with` blocks are entered elsewhere."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def say(self, text: str) -> None:
        for observer in self._observers:
            observer.say(text)

    def measured(self, step_seconds: Mapping[str, float], start: float) -> None:
        for observer in self._observers:
            observer.measured(step_seconds, start)

    def planned(self, progress: Progress) -> None:
        for observer in self._observers:
            observer.planned(progress)

    def started(self, spec: TrialSpec, label: str) -> None:
        for observer in self._observers:
            observer.started(spec, label)

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        for observer in self._observers:
            observer.running(spec, step, loss)

    def paused(self, spec: TrialSpec) -> None:
        for observer in self._observers:
            observer.paused(spec)

    def ended(self, spec: TrialSpec, record: WholeRecord) -> None:
        for observer in self._observers:
            observer.ended(spec, record)

    def beat(self) -> None:
        for observer in self._observers:
            observer.beat()


@dataclass
class RunningTrial:
    """A trial that runs.

    Times are seconds by the clock of its follower. `steps` is 0 if the length of the trial is not known. `driver` is
    empty for a trial of this driver.
    """

    label: str
    steps: int
    started: float
    updated: float
    step: int = 0
    loss: float | None = None
    driver: str = ""

    @property
    def position(self) -> str:
        """The last step, and the number of steps, if it is known."""
        if not self.steps:
            return f"{self.step}"
        return f"{self.step}/{self.steps}"

    def left(self, now: float) -> float | None:
        """The seconds that remain at the pace so far; None before the first step, and if the length is not known."""
        if not self.step or not self.steps:
            return None
        seconds_of_step = (self.updated - self.started) / self.step
        left_at_update = seconds_of_step * (self.steps - self.step)
        return max(left_at_update - (now - self.updated), 0.0)


class Follower(Observer):
    """An observer that keeps the progress of each running trial; subclasses may override `changed`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.trials: dict[str, RunningTrial] = {}

    def started(self, spec: TrialSpec, label: str) -> None:
        now = self.clock()
        steps = spec.training.steps
        if spec.arena.model.get("own_length"):
            steps = 0  # the program gets no number of steps
        self.trials[spec.id] = RunningTrial(label=label, steps=steps, started=now, updated=now)
        self.changed()

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        trial = self.trials[spec.id]
        trial.step = step
        trial.loss = loss
        trial.updated = self.clock()
        self.changed()

    def paused(self, spec: TrialSpec) -> None:
        del self.trials[spec.id]
        self.changed()

    def ended(self, spec: TrialSpec, record: WholeRecord) -> None:
        self.paused(spec)

    def changed(self) -> None:
        """The running trials or their progress have changed."""
