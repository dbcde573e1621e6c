"""A driver's status file, `drivers/<token>.json` in the directory of its study."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from fairbench.runner.observers import RunningTrial

UNKNOWN = "unknown"
"""Start time of a process that cannot be read."""


@dataclass(frozen=True)
class DriverStatus:
    """The last status that a driver wrote.

    Attributes:
        token: unique name of the driver in this directory.
        machine: boot id and PID namespace of its machine, see `this_machine`.
        started: start time of the process, as its machine counts it.
        beat: number of statuses written before this one.
        written: time of this status, in seconds since 1970 by the driver's clock.
        environment: machine and versions of its trials; empty before it runs any.
        trials: its running trials, by id.
    """

    token: str
    host: str
    pid: int
    machine: str
    started: str
    beat: int = 0
    written: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)
    trials: Mapping[str, RunningTrial] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The driver as messages name it: host and process."""
        return f"{self.host} {self.pid}"

    @property
    def boot(self) -> str:
        """The boot id of the driver's machine, which its containers share."""
        return self.machine.partition(" ")[0]

    @property
    def alive(self) -> bool | None:
        """Whether the driver's process exists; None if that is not visible from here."""
        started = start_of(self.pid) if self.machine == this_machine() else UNKNOWN
        return None if started == UNKNOWN else started == self.started

    def shifted(self, seconds: float) -> "DriverStatus":
        """The status with all timestamps shifted by `seconds`."""
        trials = {
            trial: replace(x, started=x.started + seconds, updated=x.updated + seconds)
            for trial, x in self.trials.items()
        }
        return replace(self, written=self.written + seconds, trials=trials)


def names(statuses: Sequence[DriverStatus]) -> str:
    """Drivers as messages name them: the first one and how many more there are; empty for none."""
    more = f" and {len(statuses) - 1} more" if len(statuses) > 1 else ""
    return f"the driver {statuses[0].name}{more}" if statuses else ""


def status_path(directory: Path, token: str) -> Path:
    """The status file of a driver."""
    return directory / "drivers" / f"{token}.json"


def read_status(directory: Path, token: str) -> DriverStatus | None:
    """The last status of a driver; None without one.

    A status that cannot be read is returned with beat 0: it may be readable at the next attempt.
    """
    try:
        status = json.loads(status_path(directory, token).read_text())
        driver = f"{status['host']} {status['pid']}"
        trials = {trial: RunningTrial(**{**fields, "driver": driver}) for trial, fields in status["trials"].items()}
        return DriverStatus(**{**status, "trials": trials})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return DriverStatus(token, "?", 0, "", "")


def read_statuses(directory: Path) -> list[DriverStatus]:
    """The last statuses of all drivers of a directory, including killed ones."""
    tokens = sorted(path.stem for path in (directory / "drivers").glob("*.json"))
    return [status for token in tokens if (status := read_status(directory, token)) is not None]


@cache
def this_machine() -> str:
    """The boot id and PID namespace of this machine; its host name where /proc is missing."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return platform.node()


def start_of(pid: int) -> str:
    """The start time of a process of this machine, as the kernel counts it; empty if there is no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:  # it belongs to another user
        pass
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return UNKNOWN
    return "" if fields[0] in "ZX" else fields[19]
