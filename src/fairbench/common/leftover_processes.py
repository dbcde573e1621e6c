"""The processes that a job has started and left running. An environment variable marks them."""

import ctypes
import os
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress

import psutil

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux's prctl
MOST_ROUNDS = 200
"""The largest number of searches for processes. A process may start another one during a search."""


@contextmanager
def ending_leftovers(variable: str, value: str) -> Iterator[None]:
    """End the processes that the block has started and left running; see `end_marked` for the arguments.

    Processes that an earlier block has left are ended before the block. On Linux, orphans of the block become children
    of this process. So they are found even if they have changed their environment, session and group.
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
    """Kill the processes of this user that were started with this value of an environment variable, except this one.

    With `spared`, the other children of this process are killed too. After MOST_ROUNDS searches the function returns,
    even if some processes are left.

    Args:
        variable: the name of the environment variable.
        value: its value.
        spared: the children of this process that stay alive unless they are marked; None to spare all of them.
    """
    for _ in range(MOST_ROUNDS):
        leftover = _marked(variable, value)
        children = set()
        if spared is not None:
            children = {*psutil.Process().children()} - spared
        leftover |= children
        if not leftover:
            return
        for process in leftover:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        # A dead child stays in the list of processes until its parent has waited for it.
        for child in children:
            with suppress(ChildProcessError):
                os.waitpid(child.pid, 0)
        time.sleep(0.01)


def _marked(variable: str, value: str) -> set[psutil.Process]:
    """The processes that were started with this value of an environment variable, except this one."""
    own_pid = os.getpid()
    marked = set()
    for process in psutil.process_iter():
        if process.pid == own_pid:
            continue
        with suppress(psutil.Error, OSError):  # the process has ended, or is another user's
            if process.environ().get(variable) == value:
                marked.add(process)
    return marked
