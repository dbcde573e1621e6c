"""A driver's status file, `drivers/<token>.json` in the directory of its study."""

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from fairbench.common.coercion import build
from fairbench.common.reading import Damaged, read_json
from fairbench.runner.observers import RunningTrial
from fairbench.study.folder import DRIVERS

TOKEN_DIGITS = 16
"""Hexadecimal digits of a driver's token."""
LAST_TIME = 1e12
"""Seconds since 1970 that no clock shows."""
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
    return directory / DRIVERS / f"{token}.json"


def read_status(directory: Path, token: str) -> DriverStatus | None:
    """The last status of a driver; None without one.

    Instead of a damaged status one of an unknown driver is returned, whose beat changes with the file.
    """
    status = _read(path := status_path(directory, token))
    if not isinstance(status, Damaged):
        return status
    with suppress(OSError):
        return DriverStatus(token, "?", 0, "", "", path.lstat().st_mtime_ns)
    return DriverStatus(token, "?", 0, "", "")


def read_statuses(directory: Path) -> list[DriverStatus]:
    """The last statuses of all drivers of a directory, including killed ones."""
    return [status for x in _paths(directory) if (status := read_status(directory, x.stem)) is not None]


def damaged_statuses(directory: Path) -> list[str]:
    """Messages on the damaged statuses in a directory."""
    remedy = "it counts as that of a driver that may run, for minutes; you may delete it"
    return [x.text("status of a driver", remedy) for x in map(_read, _paths(directory)) if isinstance(x, Damaged)]


def _paths(directory: Path) -> list[Path]:
    return sorted((directory / DRIVERS).glob("*.json"))


def _read(path: Path) -> DriverStatus | Damaged | None:
    def interpret(value: Any) -> DriverStatus:
        status: DriverStatus = build(DriverStatus, value, ())
        times = [status.written, *(x for trial in status.trials.values() for x in (trial.started, trial.updated))]
        if not (status.token == path.stem and 0 <= status.pid < 2**31 and max(map(abs, times)) < LAST_TIME):
            raise ValueError("no driver wrote it")
        return replace(status, trials={k: replace(x, driver=status.name) for k, x in status.trials.items()})

    return read_json(path, interpret)


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
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return UNKNOWN
    return "" if fields[0] in "ZX" else fields[19]
