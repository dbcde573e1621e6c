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
        step_seconds: the seconds of a step in each arena, as measured before the first trial; empty until then.
        start_seconds: those from the start of a program to its first step, as measured then.
        trials: the running trials of the driver, by id.
    """

    token: str
    host: str
    pid: int
    machine: str
    started: str
    beat: int = 0
    written: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)
    step_seconds: Mapping[str, float] = field(default_factory=dict)
    start_seconds: float = 0.0
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
        if self.machine != this_machine():
            return None
        started = start_of(self.pid)
        if started == UNKNOWN:
            return None
        return started == self.started


def names(statuses: Sequence[DriverStatus]) -> str:
    """Drivers as messages name them: the first driver and the number of others; empty without any driver."""
    if not statuses:
        return ""
    first = f"the driver {statuses[0].name}"
    if len(statuses) == 1:
        return first
    return f"{first} and {len(statuses) - 1} more"


def status_path(directory: Path, token: str) -> Path:
    """The status file of a driver."""
    return directory / DRIVERS / f"{token}.json"


def read_status(directory: Path, token: str) -> DriverStatus | None:
    """The last status of a driver; None without one.

    For a damaged status file, the status of an unknown driver is returned. Its beat changes when the file changes.
    """
    path = status_path(directory, token)
    status = _read(path)
    if not isinstance(status, Damaged):
        return status
    changed = 0
    with suppress(OSError):
        changed = path.lstat().st_mtime_ns
    return DriverStatus(token, host="?", pid=0, machine="", started="", beat=changed)


def read_statuses(directory: Path) -> list[DriverStatus]:
    """The last statuses of all drivers of a directory, including killed ones."""
    statuses = [read_status(directory, path.stem) for path in _paths(directory)]
    return [status for status in statuses if status is not None]


def damaged_statuses(directory: Path) -> list[str]:
    """Messages on the damaged statuses in a directory."""
    remedy = "it counts as that of a driver that may run, for minutes; you may delete it"
    messages = []
    for path in _paths(directory):
        status = _read(path)
        if isinstance(status, Damaged):
            messages.append(status.text("status of a driver", remedy))
    return messages


def _paths(directory: Path) -> list[Path]:
    """The status files of all drivers of a directory."""
    return sorted((directory / DRIVERS).glob("*.json"))


def _read(path: Path) -> DriverStatus | Damaged | None:
    """The status in a file, why it is damaged, or None if there is no file."""

    def interpret(value: Any) -> DriverStatus:
        """The status with this JSON value. Raises ValueError if no driver can have written it."""
        status: DriverStatus = build(DriverStatus, value, ())
        times = [status.written]
        trials = {}
        for name, trial in status.trials.items():
            times += [trial.started, trial.updated]
            trials[name] = replace(trial, driver=status.name)
        is_possible = 0 <= status.pid < 2**31 and max(map(abs, times)) < LAST_TIME
        if status.token != path.stem or not is_possible:
            raise ValueError("no driver wrote it")
        return replace(status, trials=trials)

    return read_json(path, interpret)


@cache
def this_machine() -> str:
    """The boot id and PID namespace of this machine; its host name where /proc is missing."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return platform.node()


def start_of(pid: int) -> str:
    """The start time of a process of this machine, in clock ticks after the start of the machine.

    It is empty if there is no such process, and UNKNOWN if this user may not see it. The start is relative to that of
    the machine because a user may set the clock while a driver runs: both absolute times move then, but not their
    difference.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:  # it belongs to another user
        pass

    import psutil  # slow to import, and not needed to view a study that no driver runs

    try:
        process = psutil.Process(pid)
        has_ended = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        seconds = process.create_time() - psutil.boot_time()
    except (psutil.Error, OSError, RuntimeError):  # this user may not see it
        return UNKNOWN
    if has_ended:
        return ""
    return str(round(seconds * os.sysconf("SC_CLK_TCK")))
