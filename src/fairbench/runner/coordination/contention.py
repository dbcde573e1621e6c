"""Whether trials share cores or GPUs with those of other drivers of this study: their seconds tell of each other then.

A trial that was seen to share has a file beside its checkpoint, which lasts as long as that: so its record says so,
whoever brings it to its end.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from fairbench.common.files import write_atomically
from fairbench.runner.coordination.heartbeat import Presence
from fairbench.runner.coordination.status import Word
from fairbench.runner.observers import Observer
from fairbench.study.records import Store
from fairbench.study.trial_spec import TrialSpec

LOOK, LOOK_EACH = 1.0, 0.01
"""Seconds between two looks at who is here: so many, and so many for each driver of another machine."""


class Company(Observer):
    """Marks the trials that share cores or GPUs with those of other drivers, whenever they do.

    Args:
        presence: of this driver; it is told of the trials first.
        store: the records of the study.
        clock: seconds that only go up; tests hand in their own.
    """

    def __init__(self, presence: Presence, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._presence, self._store, self._clock = presence, store, clock
        self._far = {presence.token}  # drivers that are on no core or GPU of this machine, and never will be
        self._near: list[Word] = []
        self._looked = float("-inf")

    def started(self, spec: TrialSpec) -> None:
        """A trial begins, or goes on."""
        if not self._store.checkpoint(spec.id).exists():
            self._store.shared(spec.id).unlink(missing_ok=True)
        self.beat()

    def beat(self) -> None:
        """Time passes: look who else is here."""
        if self._clock() - self._looked >= LOOK + LOOK_EACH * len(self._far):
            self._looked, self._near = self._clock(), self._neighbours()
        mine = self._presence.word
        if crowded(mine.units, len(self._presence.trials), self._near):
            for trial in self._presence.trials:
                if not self._store.shared(trial).exists():
                    write_atomically(self._store.shared(trial), "")

    def _neighbours(self) -> list[Word]:
        """The other drivers of this machine; those of other machines are read once."""
        here = self._presence.word.hardware
        found = self._presence.witness.present(self._far)
        self._far |= {word.token for word in found if word.hardware not in (here, "")}
        return [word for word in found if word.hardware == here]


def crowded(units: Iterable[str], trials: int, others: Sequence[Word]) -> bool:
    """Whether trials have fewer cores or GPUs than there are trials, with those of drivers that may use the same ones.

    Args:
        units: the cores or GPUs on which a driver runs trials.
        trials: how many it runs.
        others: the other drivers of its machine.
    """
    room, busy, apart = set(units), trials, [word for word in others if word.trials]
    while near := [word for word in apart if room & set(word.units)]:
        apart = [word for word in apart if word not in near]
        room |= {unit for word in near for unit in word.units}
        busy += sum(len(word.trials) for word in near)
    return busy > max(len(room), trials)
