"""What a driver says of itself: `drivers/<token>.json` in the directory of its study."""

import json
import os
import platform
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from fairbench.runner.observers import Running

FOLDER = "drivers"
UNKNOWN = "unknown"
"""Stands for the beginning of a process that does not show it."""


@dataclass(frozen=True)
class Word:
    """What a driver said last.

    Attributes:
        token: its name in this directory, which nobody else ever has.
        host: name of its machine.
        pid: its process.
        machine: which start of which machine it is, and how processes are counted there.
        began: when the process began, by that machine's account.
        beat: how often it has said something.
        seen: when it said this, in seconds since 1970 of its own clock.
        environment: machine and versions of the trials that it runs; empty before it runs any.
        units: the CPU cores or the GPUs of its machine on which its trials run.
        trials: the trials that it runs, by their ids.
    """

    token: str
    host: str
    pid: int
    machine: str
    began: str
    beat: int = 0
    seen: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)
    units: Sequence[str] = ()
    trials: Mapping[str, Running] = field(default_factory=dict)

    @property
    def who(self) -> str:
        """The driver in a few words."""
        return f"{self.host} {self.pid}"

    @property
    def hardware(self) -> str:
        """Which start of which machine it is, however processes are counted there."""
        return self.machine.partition(" ")[0]

    @property
    def runs(self) -> bool | None:
        """Whether its process runs; None if that is not to be seen from here."""
        began = beginning_of(self.pid) if self.machine == this_machine() else UNKNOWN
        return None if began == UNKNOWN else began == self.began

    def later(self, seconds: float) -> "Word":
        """The same, as if the clock that its times are of went ahead of what it is."""
        trials = {name: replace(x, began=x.began + seconds, heard=x.heard + seconds) for name, x in self.trials.items()}
        return replace(self, seen=self.seen + seconds, trials=trials)


def path_of(directory: Path, token: str) -> Path:
    """Where a driver's word stands."""
    return directory / FOLDER / f"{token}.json"


def read_word(directory: Path, token: str) -> Word | None:
    """What a driver said last; None if it has gone.

    What cannot be read now has the beat 0: it may be readable at the next look.
    """
    try:
        word = json.loads(path_of(directory, token).read_text())
        driver = f"{word['host']} {word['pid']}"
        trials = {name: Running(**{**trial, "driver": driver}) for name, trial in word["trials"].items()}
        return Word(**{**word, "trials": trials})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Word(token, "?", 0, "", "")


def words(directory: Path, but: Collection[str] = ()) -> list[Word]:
    """What the drivers of a directory said last, those that were killed among them.

    Args:
        directory: the study's output directory.
        but: tokens of drivers that nobody asks for.
    """
    tokens = sorted(path.stem for path in (directory / FOLDER).glob("*.json"))
    read = (read_word(directory, token) for token in tokens if token not in but)
    return [word for word in read if word is not None]


@cache
def this_machine() -> str:
    """Which start of which machine this is, and how processes are counted here; but on Linux its name must do."""
    with suppress(OSError):
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{start} {Path('/proc/self/ns/pid').readlink()}"
    return platform.node()


def beginning_of(pid: int) -> str:
    """When a process of this machine began, by its own account; empty if there is none of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:  # it is somebody else's
        pass
    try:
        facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return UNKNOWN
    return "" if facts[0] in "ZX" else facts[19]
