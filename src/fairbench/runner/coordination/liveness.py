"""Which drivers are there, and which have gone.

A driver of this machine is there as long as its process. One of another machine is there as long as its beat moves, and
has gone when that has stood still for `EXPIRY` seconds of the monotonic clock of whoever looks. Until the beat was seen
to move, the calendar time that the driver wrote down may say that it is there, if it is about ours; it never says that
somebody has gone. So whoever must know at the first look listens for a beat (`Witness.listen`), and finds a driver
whose clock is wrong, and nobody in a directory that was copied.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from fairbench.runner.coordination.status import Word, path_of, read_word, words

EXPIRY = 180.0
"""Seconds without a beat after which a driver has gone: longer than NFS keeps what it knows of a file."""
LISTEN = 15.0
"""Seconds in which the beat of a driver that is there moves, unless its machine is suspended."""
GLANCE = 1.0
"""Seconds for which a driver that was seen is taken to be there."""
TURN = 0.2
"""Seconds between two looks of somebody who waits."""


@dataclass(frozen=True)
class Sign:
    """A sign of life.

    Attributes:
        value: what was seen.
        since: since when it is so, by the clock of whoever looks.
        moved: whether something else was seen before.
    """

    value: object
    since: float
    moved: bool


class Witness:
    """Sees which drivers are there, by its own clock.

    Args:
        directory: the study's output directory.
        clock: seconds that only go up; tests hand in their own,
        calendar: and their own seconds since 1970.
    """

    def __init__(
        self,
        directory: Path,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
    ) -> None:
        self._directory, self._clock, self._calendar = directory, clock, calendar
        self._seen: dict[str, Sign] = {}
        self._looked: dict[str, float] = {}

    def present(self, but: Collection[str] = ()) -> list[Word]:
        """What the drivers said that are there, as far as is known by now; nothing is written.

        Args:
            but: tokens of drivers that nobody asks for.
        """
        return [self._in_our_time(word) for word in words(self._directory, but) if self._there(word)]

    def _there(self, word: Word) -> bool:
        """Whether whoever said this is there."""
        if word.runs is not None:
            return word.runs
        sign = self._sign(word.token, word.beat)
        vouched = sign.moved or abs(self._calendar() - word.seen) < EXPIRY
        return vouched and self._clock() - sign.since <= EXPIRY

    def listen(self, waits: Callable[[], None] = lambda: None) -> list[Word]:
        """What the drivers said that are there; those who may be there are given the time for a beat.

        Args:
            waits: called again and again meanwhile.
        """
        said = words(self._directory)
        while [word for word in said if self._unclear(word)]:  # all of them at the same time
            waits()
            time.sleep(TURN)
            said = words(self._directory)
        return [self._in_our_time(word) for word in said if self._there(word)]

    def _unclear(self, word: Word) -> bool:
        return not self._there(word) and word.runs is None and self._silence(word.token, word.beat) < LISTEN

    def _in_our_time(self, word: Word) -> Word:
        """A word with times of our calendar: if its own is wrong, it was said when its beat was seen to move."""
        wrong = self._calendar() - word.seen - self._silence(word.token, word.beat)
        return word if word.runs or abs(wrong) < EXPIRY else word.later(wrong)

    def gone(self, token: str) -> bool:
        """Whether a driver has gone for sure; its last word is then taken away, and comes again if it wakes up."""
        if self._clock() - self._looked.get(token, float("-inf")) < GLANCE:
            return False
        word = read_word(self._directory, token)
        gone = word is None or word.runs is False or self.silent(token, word.beat)
        if gone:
            path_of(self._directory, token).unlink(missing_ok=True)
        else:
            self._looked[token] = self._clock()
        return gone

    def silent(self, what: str, sign: object) -> bool:
        """Whether a sign of life has been the same for as long as a claim lasts."""
        return self._silence(what, sign) > EXPIRY

    def sweep(self) -> None:
        """Take away the last words of all drivers that have gone for sure."""
        for word in words(self._directory):
            self.gone(word.token)

    def _silence(self, what: str, sign: object) -> float:
        """Seconds for which a sign of life is known to be the same."""
        return self._clock() - self._sign(what, sign).since

    def _sign(self, what: str, value: object) -> Sign:
        """A sign of life, with what is known of it."""
        before = self._seen.get(what)
        if before is None or before.value != value:
            self._seen[what] = Sign(value, self._clock(), moved=before is not None)
        return self._seen[what]
