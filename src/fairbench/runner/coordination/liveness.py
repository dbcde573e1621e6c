"""The decision which drivers are alive and which are dead.

A driver of this machine is alive while its process exists. A driver of another machine is alive while its beat changes,
and dead when the beat has not changed for `EXPIRY` seconds of the observer's monotonic clock. Before a change was seen,
a timestamp close to our calendar time shows that the driver is alive; no timestamp ever shows that it is dead. A reader
that must decide at its first check waits for a beat (`Liveness.wait_until_known`). It then notices a live driver whose
clock is wrong, and takes no driver of a copied directory for a live one.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fairbench.common.files import remove
from fairbench.runner.coordination.status import DriverStatus, read_status, read_statuses, status_path

EXPIRY = 180.0
"""Seconds without a beat after which a driver is dead: longer than NFS caches a file's attributes."""
BEAT_WAIT = 15.0
"""Seconds in which a live driver's beat changes, unless its machine is suspended."""
FRESH = 1.0
"""Seconds for which a driver that was seen alive is not checked again."""
POLL = 0.2
"""Seconds between two attempts of a process that waits."""
CHECK_SECONDS = 1.0
"""The least number of seconds between two checks of other drivers or of their trials."""
CHECK_SECONDS_EACH = 0.01
"""Seconds that are added to CHECK_SECONDS for each of these drivers or trials."""


class Sighting(NamedTuple):
    """The last seen value of something that a live driver changes, when it was first seen, and whether it changed."""

    value: object
    since: float
    changed: bool


class Liveness:
    """Decides which drivers of a directory are alive, by a monotonic clock and a calendar, both in seconds."""

    def __init__(
        self, directory: Path, clock: Callable[[], float] = time.monotonic, calendar: Callable[[], float] = time.time
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._calendar = calendar
        self._seen: dict[str, Sighting] = {}
        self._checked: dict[str, float] = {}

    def alive(self) -> list[DriverStatus]:
        """The statuses of the drivers that are known to be alive; nothing is written."""
        return self._alive_of(read_statuses(self._directory))

    def _alive_of(self, statuses: Iterable[DriverStatus]) -> list[DriverStatus]:
        """Those of some statuses whose drivers are known to be alive, with their timestamps corrected."""
        return [self._corrected(status) for status in statuses if self._is_alive(status)]

    def _is_alive(self, status: DriverStatus) -> bool:
        """Whether a driver is known to be alive: by its process on this machine, or else by its beat."""
        if status.alive is not None:
            return status.alive  # it runs on this machine, where its process is visible
        sighting = self._sighting(status.token, status.beat)
        is_plausible = sighting.changed or abs(self._calendar() - status.written) < EXPIRY
        unchanged_for = self._clock() - sighting.since
        return is_plausible and unchanged_for <= EXPIRY

    def wait_until_known(self, wait: Callable[[], None] = lambda: None) -> list[DriverStatus]:
        """The statuses of the live drivers; calls `wait` for up to BEAT_WAIT seconds while some may be alive."""
        while True:
            statuses = read_statuses(self._directory)
            unknown = [status for status in statuses if self._is_unknown(status)]
            if not unknown:
                return self._alive_of(statuses)
            wait()
            time.sleep(POLL)

    def _is_unknown(self, status: DriverStatus) -> bool:
        """Whether a driver of another machine may be alive: its beat was first seen less than BEAT_WAIT seconds ago."""
        is_recent = self._unchanged_for(status.token, status.beat) < BEAT_WAIT
        return not self._is_alive(status) and status.alive is None and is_recent

    def _corrected(self, status: DriverStatus) -> DriverStatus:
        """The status, with its timestamps moved to our calendar if the driver's clock is wrong."""
        offset = self._calendar() - status.written - self._unchanged_for(status.token, status.beat)
        if status.alive or abs(offset) < EXPIRY:
            return status
        return _shifted(status, offset)

    def is_dead(self, token: str) -> bool:
        """Whether a driver is certainly dead.

        If so, its status file is removed; a driver that wakes up writes a new one.
        """
        if self._clock() - self._checked.get(token, float("-inf")) < FRESH:
            return False
        status = read_status(self._directory, token)
        dead = status is None or status.alive is False or self.is_expired(token, status.beat)
        if dead:
            remove(status_path(self._directory, token))
        else:
            self._checked[token] = self._clock()
        return dead

    def is_expired(self, name: str, value: object) -> bool:
        """Whether a value that a live driver would change has been the same for EXPIRY seconds."""
        return self._unchanged_for(name, value) > EXPIRY

    def remove_dead(self) -> None:
        """Remove the status files of dead drivers."""
        for status in read_statuses(self._directory):
            self.is_dead(status.token)  # it also removes the file

    def _unchanged_for(self, name: str, value: object) -> float:
        """The seconds for which the value with this name has been the same, as this observer saw it."""
        return self._clock() - self._sighting(name, value).since

    def _sighting(self, name: str, value: object) -> Sighting:
        """When the present value with this name was first seen; a new value is noted."""
        before = self._seen.get(name)
        if before is None or before.value != value:
            self._seen[name] = Sighting(value, self._clock(), changed=before is not None)
        return self._seen[name]


def _shifted(status: DriverStatus, seconds: float) -> DriverStatus:
    """The status with all its times later by some seconds."""
    trials = {}
    for name, trial in status.trials.items():
        trials[name] = replace(trial, started=trial.started + seconds, updated=trial.updated + seconds)
    return replace(status, written=status.written + seconds, trials=trials)
