"""What a driver leaves in the output directory while it runs, for whoever watches: `.running-<host>-<process>.json`."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from fairbench.executors import Record
from fairbench.observers import Follower, Running
from fairbench.spec import TrialSpec
from fairbench.store import ABANDONED, write_atomically

SECONDS = 1.0
"""How often a driver writes down what runs, at most."""


class Presence(Follower):
    """Writes down which trials run and how far they are; use it in a `with` block.

    Args:
        directory: the study's output directory.
        clock: seconds since 1970, so that other processes can compare them; tests hand in their own.
        searched: hyperparameters that the suite searches with the rate.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time, searched: Iterable[str] = ()) -> None:
        super().__init__(clock, searched)
        self._path = directory / f".running-{socket.gethostname()}-{os.getpid()}.json"
        self._written = float("-inf")

    def __enter__(self) -> "Presence":
        """Say that somebody is here; what drivers of this machine that were killed have left is taken away."""
        for path in self._path.parent.glob(f".running-{socket.gethostname()}-*.json"):
            if not _is_alive(int(path.stem.rpartition("-")[2])):
                path.unlink(missing_ok=True)
        self._write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say that nobody is here any more."""
        self._path.unlink(missing_ok=True)

    def started(self, spec: TrialSpec) -> None:
        """A trial begins."""
        super().started(spec)
        self._write()

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        """A trial goes on."""
        super().running(spec, step, loss)
        self._write()

    def ended(self, spec: TrialSpec, record: Record) -> None:
        """A trial has ended."""
        super().ended(spec, record)
        self._write()

    def _write(self) -> None:
        now = self.clock()
        if now - self._written >= SECONDS:
            self._written = now
            trials = {name: asdict(trial) for name, trial in self.trials.items()}
            write_atomically(self._path, json.dumps({"seen": now, "trials": trials}))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's
        return True
    return True


def present(directory: Path, now: float) -> list[dict[str, Running]]:
    """What the drivers of a directory said last, each of its trials by their ids.

    Args:
        directory: the study's output directory.
        now: seconds since 1970; what was said too long ago is left out.
    """
    said = []
    for path in directory.glob(".running-*.json"):
        try:
            word = json.loads(path.read_text())
        except FileNotFoundError:  # its driver has just ended
            continue
        if now - word["seen"] < ABANDONED:
            said.append({name: Running(**trial) for name, trial in word["trials"].items()})
    return said
