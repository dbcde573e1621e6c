"""The cores and the signals of this process."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def cores() -> int:
    """The number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def handling(signals: Iterable[int], handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Let a function handle some signals during the block. In other threads than the main one, do nothing."""
    earlier_handlers = {}
    # Python allows signal handlers in the main thread only.
    if threading.current_thread() is threading.main_thread():
        for number in signals:
            earlier_handlers[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier_handler in earlier_handlers.items():
            signal.signal(number, earlier_handler)
