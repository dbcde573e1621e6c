"""The presence of a driver: it says what it does while it runs, for whoever watches or shares the work.

A new word comes at least every `BEAT` seconds, paced by a clock that cannot go backwards. Times in it are those of the
driver's calendar clock, and are for people; what they may say of who is there is told in `liveness.py`.
"""

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType

from fairbench.common.files import write_atomically
from fairbench.runner.coordination.liveness import Witness
from fairbench.runner.coordination.status import Word, beginning_of, path_of, this_machine
from fairbench.runner.observers import Follower
from fairbench.study.records import Record
from fairbench.study.trial_spec import TrialSpec

SECONDS = 1.0
"""How often a driver writes down what runs, at most."""
BEAT = 10.0
"""How often it writes down that it is there, at least."""


class Presence(Follower):
    """Writes down which trials run and how far they are; use it in a `with` block.

    Args:
        directory: the study's output directory.
        clock: seconds since 1970, so that people can compare them; tests hand in their own.
        pace: seconds that only go up.
        searched: hyperparameters that the suite searches with the rate.

    Attributes:
        word: what it said last, or says next.
        witness: sees who else is there.
    """

    def __init__(
        self,
        directory: Path,
        clock: Callable[[], float] = time.time,
        pace: Callable[[], float] = time.monotonic,
        searched: Iterable[str] = (),
    ) -> None:
        super().__init__(clock, searched)
        self._directory, self._pace = directory, pace
        host, pid = socket.gethostname(), os.getpid()
        self.word = Word(secrets.token_hex(8), host, pid, this_machine(), beginning_of(pid))
        self.witness = Witness(directory)
        self._written, self._news = float("-inf"), True

    @property
    def token(self) -> str:
        """The driver's name in the directory."""
        return self.word.token

    def __enter__(self) -> "Presence":
        """Say that somebody is here."""
        self.witness.sweep()
        self.beat()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say that nobody is here any more."""
        path_of(self._directory, self.token).unlink(missing_ok=True)
        self.witness.sweep()

    def join(self, environment: Mapping[str, str], units: Sequence[str]) -> None:
        """Say at once on what ground, and on which cores or GPUs, trials will run here."""
        self.word = replace(self.word, environment=environment, units=units)
        self._write()

    def fellows(self) -> list[Word]:
        """What the other drivers said that run trials of the study; who is not known is listened for."""
        there = self.witness.listen(self.beat)
        return [word for word in there if word.environment and word.token != self.token]

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
        self.word = replace(self.word, beat=self.word.beat + 1, seen=self.clock(), trials=self.trials)
        write_atomically(path_of(self._directory, self.token), json.dumps(asdict(self.word)))
