"""What a driver says while it runs, for whoever watches or shares the work: `drivers/<token>.json` in its directory.

A new word comes at least every `BEAT` seconds, paced by a clock that cannot go backwards. Times in it are those of the
driver's calendar clock, and are for people only.
"""

import json
import os
import platform
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from types import TracebackType

from fairbench.executors import Record
from fairbench.observers import Follower, Running
from fairbench.spec import TrialSpec
from fairbench.store import ABANDONED, write_atomically

FOLDER = "drivers"
SECONDS = 1.0
"""How often a driver writes down what runs, at most."""
BEAT = 10.0
"""How often it writes down that it is there, at least."""
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
    trials: Mapping[str, Running] = field(default_factory=dict)

    @property
    def who(self) -> str:
        """The driver in a few words."""
        return f"{self.host} {self.pid}"

    @property
    def ended(self) -> bool:
        """Whether it is a process of this machine that is no more."""
        return self._runs() is False

    def there(self, now: float) -> bool:
        """Whether it is there, as far as one look can tell: clocks are asked where no process can be."""
        runs = self._runs()
        return now - self.seen < ABANDONED if runs is None else runs

    def _runs(self) -> bool | None:
        """Whether its process runs; None if that is not to be seen from here."""
        began = _began(self.pid) if self.machine == this_machine() else UNKNOWN
        return None if began == UNKNOWN else began == self.began


def path_of(directory: Path, token: str) -> Path:
    """Where a driver's word stands."""
    return directory / FOLDER / f"{token}.json"


class Presence(Follower):
    """Writes down which trials run and how far they are; use it in a `with` block.

    Args:
        directory: the study's output directory.
        clock: seconds since 1970, so that people can compare them; tests hand in their own.
        pace: seconds that only go up.
        searched: hyperparameters that the suite searches with the rate.
    """

    def __init__(
        self,
        directory: Path,
        clock: Callable[[], float] = time.time,
        pace: Callable[[], float] = time.monotonic,
        searched: Iterable[str] = (),
    ) -> None:
        super().__init__(clock, searched)
        self.token = secrets.token_hex(8)
        self._directory, self._pace = directory, pace
        self._word = Word(self.token, socket.gethostname(), os.getpid(), this_machine(), _began(os.getpid()))
        self._written, self._news = float("-inf"), True

    def __enter__(self) -> "Presence":
        """Say that somebody is here."""
        self._clear()
        self.beat()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say that nobody is here any more."""
        path_of(self._directory, self.token).unlink(missing_ok=True)
        self._clear()

    def _clear(self) -> None:
        """Take away what drivers of this machine that were killed have left."""
        for word in words(self._directory):
            if word.ended:
                path_of(self._directory, word.token).unlink(missing_ok=True)

    def join(self, environment: Mapping[str, str]) -> None:
        """Say at once on what ground trials will run here."""
        self._word = replace(self._word, environment=environment)
        self._write()

    def started(self, spec: TrialSpec) -> None:
        """A trial begins."""
        super().started(spec)
        self._tell()

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        """A trial goes on."""
        super().running(spec, step, loss)
        self._tell()

    def paused(self, spec: TrialSpec) -> None:
        """A trial has stopped before its end."""
        super().paused(spec)
        self._tell()

    def ended(self, spec: TrialSpec, record: Record) -> None:
        """A trial has ended."""
        super().ended(spec, record)
        self._tell()

    def _tell(self) -> None:
        self._news = True
        self.beat()

    def beat(self) -> None:
        """Say what is new, or after a while that all is as it was."""
        if self._pace() - self._written >= (SECONDS if self._news else BEAT):
            self._write()

    def _write(self) -> None:
        self._written, self._news = self._pace(), False
        self._word = replace(self._word, beat=self._word.beat + 1, seen=self.clock(), trials=self.trials)
        write_atomically(path_of(self._directory, self.token), json.dumps(asdict(self._word)))


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


def words(directory: Path) -> list[Word]:
    """What the drivers of a directory said last, those that were killed among them."""
    read = (read_word(directory, path.stem) for path in sorted((directory / FOLDER).glob("*.json")))
    return [word for word in read if word is not None]


def present(directory: Path, now: float) -> list[Word]:
    """What the drivers said that are there, as far as one look can tell.

    Args:
        directory: the study's output directory.
        now: seconds since 1970; who said nothing for too long on another machine is left out.
    """
    return [word for word in words(directory) if word.there(now)]


@cache
def this_machine() -> str:
    """Which start of which machine this is, and how processes are counted here; but on Linux its name must do."""
    with suppress(OSError):
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{start} {Path('/proc/self/ns/pid').readlink()}"
    return platform.node()


def _began(pid: int) -> str:
    """When a process of this machine began; empty if there is none of that number."""
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
