"""The lock that leaves an optimizer's step to one thread at a time."""

import os
from threading import RLock


class Forks:
    """How often this process and its ancestors were forked, and a lock for what happens once after a fork."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = RLock()

    def add(self) -> None:
        """Count a fork, in the new process. A thread that had the lock does not exist there."""
        self.count += 1
        self.lock = RLock()


FORKS = Forks()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=FORKS.add)


class StepLock:
    """A lock of one process.

    A process that is forked while another thread is in a step gets a lock of its own: that thread, which would free the
    lock, does not exist there.
    """

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._lock = RLock()
        self._forks = FORKS.count

    def of_this_process(self) -> RLock:
        """The lock, a new one after a fork."""
        if self._forks != FORKS.count:
            with FORKS.lock:
                if self._forks != FORKS.count:
                    self._renew()
        return self._lock
