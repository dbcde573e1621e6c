"""Cores and signals of a process, and the processes that a job has started, which a variable marks."""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

PROCESSES = Path("/proc")
"""Where Linux shows processes; elsewhere only the process group of a job is ended."""
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux's prctl
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


@contextmanager
def ending(variable: str, value: str) -> Iterator[None]:
    """End what the block has started and left running, as `end_marked`, and before it what an earlier one has left.

    On Linux orphans become children of this process, and are found without their environment, session and group.
    """
    end_marked(variable, value)
    prctl = getattr(ctypes.CDLL(None), "prctl", lambda *_: None)
    prctl(SUBREAPER, 1, 0, 0, 0)
    before = _children()
    try:
        yield
    finally:
        end_marked(variable, value, before)
        prctl(SUBREAPER, 0, 0, 0, 0)


def end_marked(variable: str, value: str, spared: Set[int] | None = None) -> None:
    """Kill every process of this user, except this one, whose environment began with `variable=value`.

    With `spared` also every child of this process but those.
    """
    mark = os.fsencode(f"{variable}={value}")
    for _ in range(MOST_ROUNDS):
        own = set() if spared is None else _children() - spared
        found = {pid for pid, text in _of_processes("environ").items() if mark in text.split(b"\0")} | own
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in own:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        if not found:
            return
        time.sleep(0.01)


def _children() -> set[int]:
    """The processes whose parent is this one."""
    me = [str(os.getpid()).encode()]
    return {pid for pid, text in _of_processes("stat").items() if text.rpartition(b")")[2].split()[1:2] == me}


def _of_processes(name: str) -> dict[int, bytes]:
    """A file that Linux shows of each other process of this user that runs."""
    found = {}
    for path in PROCESSES.glob(f"[0-9]*/{name}"):
        with suppress(OSError):
            found[int(path.parent.name)] = path.read_bytes()
    return {pid: text for pid, text in found.items() if pid != os.getpid()}
