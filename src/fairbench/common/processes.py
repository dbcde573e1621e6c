"""Cores and signals of a process, and the processes that a job has started, which a variable marks."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

PROCESSES = Path("/proc")
"""Where Linux shows processes; elsewhere only the process group of a job is ended."""
MOST_ROUNDS = 200
"""Rounds in which processes are looked for, since one may start another meanwhile."""


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def handling(signals: Iterable[int], handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Handle signals by a function in the block; only in the main thread, since others get none."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in (signals if is_main else ())}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def end_marked(variable: str, value: str) -> None:
    """Kill every process of this user, except this one, whose environment began with `variable=value`."""
    mark = os.fsencode(f"{variable}={value}")
    for _ in range(MOST_ROUNDS):
        others = [int(path.name) for path in PROCESSES.glob("[0-9]*") if path.name != str(os.getpid())]
        found = [pid for pid in others if mark in _environment(pid)]
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(0.01)


def _environment(pid: int) -> list[bytes]:
    """The environment that a process began with; empty for one that has ended, or of another user."""
    try:
        return (PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
