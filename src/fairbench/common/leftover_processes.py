"""The processes that a job has started and left running, which a variable of their environment marks."""

import ctypes
import os
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress

import psutil

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux's prctl
MOST_ROUNDS = 200
"""Rounds in which processes are looked for, since one may start another meanwhile."""


@contextmanager
def ending(variable: str, value: str) -> Iterator[None]:
    """End what the block has started and left running, as `end_marked`, and before it what an earlier one has left.

    On Linux orphans become children of this process, and are found without their environment, session and group.
    """
    end_marked(variable, value)
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl:
        prctl(SUBREAPER, 1, 0, 0, 0)
    before = {*psutil.Process().children()}
    try:
        yield
    finally:
        end_marked(variable, value, before)
        if prctl:
            prctl(SUBREAPER, 0, 0, 0, 0)


def end_marked(variable: str, value: str, spared: Set[psutil.Process] | None = None) -> None:
    """Kill every process of this user, except this one, whose environment began with `variable=value`.

    With `spared` also every child of this process but those.
    """
    for _ in range(MOST_ROUNDS):
        left = _marked(variable, value)
        children = set()
        if spared is not None:
            children = {*psutil.Process().children()} - spared
        left |= children
        if not left:
            return
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for child in children:
            with suppress(ChildProcessError):
                os.waitpid(child.pid, 0)
        time.sleep(0.01)


def _marked(variable: str, value: str) -> set[psutil.Process]:
    """The processes whose environment began with `variable=value`, except this one."""
    me = os.getpid()
    found = set()
    for process in psutil.process_iter():
        if process.pid == me:
            continue
        with suppress(psutil.Error, OSError):  # it has ended, or is another user's
            if process.environ().get(variable) == value:
                found.add(process)
    return found
