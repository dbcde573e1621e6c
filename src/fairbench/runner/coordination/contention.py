"""Marks trials that ran while another driver of this machine ran trials: their timings are not comparable.

The mark is a file next to the trial's checkpoint, and exists as long as the checkpoint. The record therefore has
`alone: false`, whichever driver completes the trial.
"""

import time
from collections.abc import Callable

from fairbench.common.files import write_atomically
from fairbench.runner.coordination.heartbeat import Heartbeat
from fairbench.runner.coordination.liveness import LOOK, LOOK_EACH
from fairbench.runner.observers import Observer
from fairbench.study.records import Store
from fairbench.study.trial_spec import TrialSpec


class Contention(Observer):
    """Marks this driver's trials while another driver of this machine runs trials; the heartbeat comes first."""

    def __init__(self, heartbeat: Heartbeat, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._heartbeat, self._store, self._clock = heartbeat, store, clock
        self._next_look, self._is_shared = float("-inf"), False

    def started(self, spec: TrialSpec, label: str) -> None:
        """Remove the mark of an earlier attempt, unless the trial resumes from its checkpoint."""
        if not self._store.checkpoint(spec.id).exists():
            self._store.shared(spec.id).unlink(missing_ok=True)
        self.beat()

    def beat(self) -> None:
        """Mark the running trials if the machine is shared."""
        if self._clock() >= self._next_look:
            here = self._heartbeat.status
            alive = self._heartbeat.liveness.alive()
            others = [x for x in alive if x.boot == here.boot and x.token != here.token]
            self._is_shared = any(status.trials for status in others)
            self._next_look = self._clock() + LOOK + LOOK_EACH * len(alive)
        for trial in self._heartbeat.trials if self._is_shared else ():
            if not self._store.shared(trial).exists():
                write_atomically(self._store.shared(trial), "")
