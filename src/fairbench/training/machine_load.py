"""What the machine did during a trial besides it: the load of other processes, and how often it was throttled."""

import resource
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

THROTTLE_COUNTS = "/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"
"""Linux counts here how often each core has lowered its clock because of heat."""
CONTROL_GROUP = Path("/sys/fs/cgroup/cpu.stat")
"""Linux counts here how often a container has used up its share of the processors."""
IDLE = ("idle", "iowait", "guest", "guest_nice")
"""Times of a processor in which it did nothing, or that are part of another one."""


@dataclass(frozen=True)
class Load:
    """The load of the machine during a trial.

    Attributes:
        others: the mean number of cores that other processes used.
        throttled: how often the processors were throttled; None if that is not known.
    """

    others: float
    throttled: int | None


class LoadMeter:
    """Measures the load of the machine from its construction on."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = _busy_seconds()
        self._own = _own_seconds()
        self._throttled = _throttle_count()

    def read(self) -> Load:
        """The load until now. Processes count as the trial's own if they have ended and were waited for."""
        seconds = time.monotonic() - self._began
        busy = _busy_seconds() - self._busy
        own = _own_seconds() - self._own
        others = max(busy - own, 0.0) / max(seconds, 1e-9)
        throttled = None
        now = _throttle_count()
        if now is not None and self._throttled is not None:
            throttled = now - self._throttled
        return Load(others, throttled)


def _busy_seconds() -> float:
    """The seconds for which all processors together have worked since the start of the machine."""
    times: dict[str, float] = psutil.cpu_times()._asdict()
    return sum(seconds for kind, seconds in times.items() if kind not in IDLE)


def _own_seconds() -> float:
    """The seconds of processors that this process and its ended children have used."""
    seconds = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        seconds += usage.ru_utime + usage.ru_stime
    return seconds


def _throttle_count() -> int | None:
    """How often the processors have been throttled since the start of the machine; None if that is not known."""
    counts = []
    with suppress(OSError, ValueError):
        counts = [int(file.read_text()) for file in Path("/").glob(THROTTLE_COUNTS.lstrip("/"))]
    with suppress(OSError, ValueError):
        for line in CONTROL_GROUP.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "nr_throttled":
                counts.append(int(value))
    return sum(counts) if counts else None
