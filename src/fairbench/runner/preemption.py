"""SIGTERM and SIGUSR1 stop a driver as Ctrl-C does, see `trial_loop.py`."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fairbench.common.errors import Preempted
from fairbench.common.processes import handling

SIGNALS = [number for name in ("SIGTERM", "SIGUSR1") if (number := getattr(signal, name, None))]  # not all on Windows
TO_BE_CONTINUED = 75
"""Exit code of a driver that a signal stopped; EX_TEMPFAIL of BSD's sysexits.h."""
ECHO = 1.0
"""Seconds in which a second signal counts as the first: a job system may signal both a step and its script."""


@contextmanager
def preemptible() -> Iterator[None]:
    """The signals raise Preempted in the block; a second one also interrupts the handling of the first."""
    last = float("-inf")

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if time.monotonic() - last >= ECHO:
            last = time.monotonic()
            raise Preempted(signal.Signals(number).name)

    with handling(SIGNALS, stop):
        yield
