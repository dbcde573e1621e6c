"""Processes that a job has started: they are found by a variable of their environment, whatever session they are in."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")
"""Where Linux shows processes; elsewhere only the process group of a job is ended."""
MOST_ROUNDS = 200
"""Rounds in which processes are looked for, since one may start another meanwhile."""


def end_marked(variable: str, value: str) -> None:
    """Kill every process of this user, except this one, whose environment began with `variable=value`."""
    mark = os.fsencode(f"{variable}={value}")
    for _ in range(MOST_ROUNDS):
        found = [pid for pid in _others() if mark in _environment(pid)]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.01)


def _others() -> list[int]:
    names = [path.name for path in PROCESSES.iterdir()] if PROCESSES.is_dir() else []
    return [int(name) for name in names if name.isdecimal() and int(name) != os.getpid()]


def _environment(pid: int) -> list[bytes]:
    """The environment that a process began with; empty for one that has ended, or of another user."""
    try:
        return (PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
