"""The lock that leaves an optimizer's step to one thread at a time."""

import os
from threading import RLock
from weakref import WeakSet


class StepLock:
    """A lock of one process.

    A process that is forked while another thread is in a step gets a lock of its own: that thread, which would free the
    lock, does not exist there.
    """

    def __init__(self) -> None:
        self.renew()
        _LOCKS.add(self)

    def renew(self) -> None:
        """Begin with a lock that nobody has."""
        self.lock = RLock()


_LOCKS: WeakSet[StepLock] = WeakSet()


def _renew_all() -> None:
    """Renew the lock of each optimizer."""
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_all)
