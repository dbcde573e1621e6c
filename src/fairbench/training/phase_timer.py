"""Where the time of a trial goes, measured without making a GPU wait."""

import time
from typing import Protocol

import torch

PHASES = ("data", "forward", "backward", "step", "eval", "log")
"""The phases of a trial; "log" is bookkeeping: losses, mechanism, path length, checkpoints."""


class Clock(Protocol):
    """Gives the time since the last mark to a phase."""

    seconds: dict[str, float]

    def start(self) -> None:
        """Begin to count now."""

    def lap(self, phase: str) -> None:
        """End a phase."""

    def read(self) -> None:
        """Bring `seconds` up to date; the caller has just waited for the device anyway."""

    def state_dict(self) -> dict[str, float]:
        """The seconds, as brought up to date last."""

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Add to those seconds from now on."""


def clock(device: torch.device) -> Clock:
    """The clock of a device."""
    return GpuClock() if device.type == "cuda" else HostClock()


class Seconds:
    """What a clock has counted, by phase."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)

    def state_dict(self) -> dict[str, float]:
        """The seconds, as brought up to date last."""
        return dict(self.seconds)

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Add to those seconds from now on."""
        self.seconds = dict(state)


class HostClock(Seconds):
    """What the host needs, where it does the work itself."""

    def __init__(self) -> None:
        super().__init__()
        self._mark = time.perf_counter()

    def start(self) -> None:
        """Begin to count now."""
        self._mark = time.perf_counter()

    def lap(self, phase: str) -> None:
        """End a phase."""
        now = time.perf_counter()
        self.seconds[phase] += now - self._mark
        self._mark = now

    def read(self) -> None:
        """Nothing is open."""


class GpuClock(Seconds):
    """What the GPU needs, by events between which it works; they are read when it is waited for anyway."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, torch.cuda.Event]] = []
        self._spare: list[torch.cuda.Event] = []
        self._first = self._event()

    def _event(self) -> torch.cuda.Event:
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self) -> None:
        """Begin to count now."""
        self._first = self._event()

    def lap(self, phase: str) -> None:
        """End a phase."""
        self._open.append((phase, self._event()))

    def read(self) -> None:
        """Bring `seconds` up to date, and use the events again."""
        if self._open:
            self._open[-1][1].synchronize()
        for phase, event in self._open:
            self.seconds[phase] += self._first.elapsed_time(event) / 1000
            self._spare.append(self._first)
            self._first = event
        self._open.clear()
