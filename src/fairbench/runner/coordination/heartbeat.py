"""Heartbeat: writes the driver's status at least every `BEAT` seconds, for other drivers and for `fairbench watch`.

A monotonic clock paces it. Timestamps in the status come from the driver's calendar clock and are for people;
`liveness.py` explains what they show.
"""

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from fairbench.common.files import remove, write_atomically
from fairbench.runner.coordination.liveness import CHECK_SECONDS, CHECK_SECONDS_EACH, Liveness
from fairbench.runner.coordination.status import TOKEN_DIGITS, DriverStatus, start_of, status_path, this_machine
from fairbench.runner.observers import Follower, Observer
from fairbench.study.records import Store
from fairbench.study.trial_spec import TrialSpec

SHORTEST_BEAT = 1.0
"""Seconds between two statuses when something has changed."""
BEAT = 10.0
"""Seconds between two statuses when nothing has changed."""


class Heartbeat(Follower):
    """Writes the running trials and their progress to the status file of this driver, in a `with` block.

    `liveness` knows which other drivers are alive.
    """

    def __init__(
        self, directory: Path, clock: Callable[[], float] = time.time, pace: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self._pace = pace
        pid = os.getpid()
        self.status = DriverStatus(
            token=secrets.token_hex(TOKEN_DIGITS // 2),
            host=socket.gethostname(),
            pid=pid,
            machine=this_machine(),
            started=start_of(pid),
        )
        self._file = status_path(directory, self.status.token)
        self.liveness = Liveness(directory)
        self._last_write = float("-inf")
        self._is_new = True

    def __enter__(self) -> "Heartbeat":
        self.liveness.remove_dead()
        self.beat()
        return self

    def __exit__(self, *error: object) -> None:
        remove(self._file)
        self.liveness.remove_dead()

    def announce(self, environment: Mapping[str, str]) -> None:
        """Write the environment in which this driver runs trials, without waiting for the next beat."""
        self.status = replace(self.status, environment=environment)
        self._write()

    def measured(self, step_seconds: Mapping[str, float], start: float) -> None:
        """Write what the first steps took with the next status, for the time left that others show."""
        self.status = replace(self.status, step_seconds=step_seconds, start_seconds=start)

    def other_drivers(self) -> list[DriverStatus]:
        """The statuses of other live drivers that run trials.

        This waits while it is unknown whether a driver is alive, see `Liveness.wait_until_known`.
        """
        alive = self.liveness.wait_until_known(self.beat)
        return [status for status in alive if status.environment and status.token != self.status.token]

    def changed(self) -> None:
        """Write the changed trials within SHORTEST_BEAT seconds instead of BEAT."""
        self._is_new = True
        self.beat()

    def beat(self) -> None:
        """Write the status if the last one is old enough."""
        pause = SHORTEST_BEAT if self._is_new else BEAT
        if self._pace() - self._last_write >= pause:
            self._write()

    def _write(self) -> None:
        """Write the status with the present trials and its number."""
        self._last_write = self._pace()
        self._is_new = False
        beat = self.status.beat + 1
        self.status = replace(self.status, beat=beat, written=self.clock(), trials=self.trials)
        write_atomically(self._file, json.dumps(asdict(self.status)))


class Contention(Observer):
    """Marks this driver's trials while another driver of this machine runs trials too.

    The timings of marked trials are not comparable. The mark is a file next to the checkpoint, and exists as long as
    the checkpoint. The record therefore has `alone: false`, whichever driver completes the trial. Among the observers,
    the heartbeat comes before this one.
    """

    def __init__(self, heartbeat: Heartbeat, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._heartbeat = heartbeat
        self._store = store
        self._clock = clock
        self._next_look = float("-inf")
        self._is_shared = False

    def started(self, spec: TrialSpec, label: str) -> None:
        """Remove the mark of an earlier attempt, unless the trial resumes from its checkpoint."""
        if not self._store.checkpoint(spec.id).exists():
            self._store.shared(spec.id).unlink(missing_ok=True)
        self.beat()

    def beat(self) -> None:
        """Look at the other drivers if that is due, and mark the running trials if another driver is busy."""
        if self._clock() >= self._next_look:
            here = self._heartbeat.status
            alive = self._heartbeat.liveness.alive()
            others = [status for status in alive if status.boot == here.boot and status.token != here.token]
            self._is_shared = any(status.trials for status in others)
            self._next_look = self._clock() + CHECK_SECONDS + CHECK_SECONDS_EACH * len(alive)
        if not self._is_shared:
            return
        for trial in self._heartbeat.trials:
            mark = self._store.shared(trial)
            if not mark.exists():
                write_atomically(mark, "")
