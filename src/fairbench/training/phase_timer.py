"""The seconds of each phase of a trial, measured without making a GPU wait."""

import time

import torch

PHASES = ("data", "forward", "backward", "step", "eval", "log")
"""The phases of a trial; "log" is bookkeeping: losses, mechanism, path length, checkpoints."""


class Clock:
    """A clock that adds the time since the last mark to a phase, by the time of the host."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.start()

    def start(self) -> None:
        """Set the first mark."""
        self._mark = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Set a mark, and add the time since the last one to a phase."""
        now = time.perf_counter()
        self.seconds[phase] += now - self._mark
        self._mark = now

    def read(self) -> None:
        """Bring `seconds` up to date. To be called after the caller has waited for the device anyway.

        Here is nothing to do, since `lap` does it. A clock of a GPU has marks to evaluate.
        """


class GpuClock(Clock):
    """A clock by the time of a GPU. Its marks are events on the GPU, which `read` evaluates."""

    def __init__(self) -> None:
        self._open: list[tuple[str, torch.cuda.Event]] = []  # phases that are not in `seconds` yet, and their ends
        self._spare: list[torch.cuda.Event] = []  # events to be used again
        super().__init__()  # calls `start`, which uses the spare events

    def _event(self) -> torch.cuda.Event:
        """A mark at this point of the GPU's work."""
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self) -> None:
        self._previous = self._event()  # the last mark whose time is in `seconds`, or the first mark

    def lap(self, phase: str) -> None:
        self._open.append((phase, self._event()))

    def read(self) -> None:
        if self._open:
            _, last = self._open[-1]
            last.synchronize()
        for phase, event in self._open:
            self.seconds[phase] += self._previous.elapsed_time(event) / 1000
            self._spare.append(self._previous)
            self._previous = event
        self._open.clear()


def work_seconds(device: torch.device) -> float:
    """A time in seconds whose differences are the work of this process.

    On a CPU this time is that of the processor: a single step is short, and while other programs run, the process may
    wait longer than it works. On a GPU this time is that of the host's clock.
    """
    if device.type == "cuda":
        return time.perf_counter()
    return time.process_time()


def clock(device: torch.device) -> Clock:
    """The clock of a device."""
    return GpuClock() if device.type == "cuda" else Clock()
