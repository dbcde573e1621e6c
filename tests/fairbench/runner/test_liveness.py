"""Who is there and who has gone: by processes of this machine and by beats, whatever clocks say elsewhere."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fairbench.common.files import write_atomically
from fairbench.runner.coordination import liveness as witnesses
from fairbench.runner.coordination.liveness import EXPIRY, GLANCE, LISTEN, Witness
from fairbench.runner.coordination.status import Word, beginning_of, path_of, this_machine
from fairbench.runner.observers import Running

NOW = 1.8e9
DAY = 86_400.0
FAR = Word("abc", "elsewhere", os.getpid(), "another machine", "long ago", beat=5, seen=NOW, units=[])


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def witness(tmp_path: Path, clock: Clock) -> Witness:
    return Witness(tmp_path, clock, lambda: NOW + clock())


def say(directory: Path, word: Word) -> None:
    write_atomically(path_of(directory, word.token), json.dumps(asdict(word)))


def test_a_driver_elsewhere_has_gone_when_its_beat_stands_still_by_the_observers_clock(
    tmp_path: Path, clock: Clock, witness: Witness
) -> None:
    """Whatever calendar clocks say."""
    word = replace(FAR, seen=-1e9)
    say(tmp_path, word)
    assert not witness.gone("abc")
    clock.now += EXPIRY
    assert not witness.gone("abc")
    say(tmp_path, replace(word, beat=6))
    clock.now += GLANCE
    assert not witness.gone("abc")  # it has moved
    clock.now += EXPIRY
    assert not witness.gone("abc")
    clock.now += GLANCE
    assert witness.gone("abc")
    assert not path_of(tmp_path, "abc").exists()
    assert witness.gone("somebody without a presence")

    path_of(tmp_path, "odd").write_text("{")
    assert not witness.gone("odd")
    clock.now += EXPIRY + GLANCE
    assert witness.gone("odd")


def test_a_process_of_this_machine_that_has_ended_has_gone_at_once(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        word = Word("abc", "here", process.pid, this_machine(), beginning_of(process.pid), beat=1, seen=-1e9, units=[])
        say(tmp_path, word)
        assert not Witness(tmp_path).gone("abc")
        assert Witness(tmp_path).present() == [word]  # whatever its clock said
        say(tmp_path, replace(word, began="before"))  # an earlier process of that number
        assert Witness(tmp_path).present() == []
        assert Witness(tmp_path).gone("abc")
        say(tmp_path, word)
        process.kill()
        process.stdin.close()  # type: ignore[union-attr]
    assert Witness(tmp_path).present() == []
    assert path_of(tmp_path, "abc").exists()  # who only looks writes nothing
    Witness(tmp_path).sweep()
    assert not path_of(tmp_path, "abc").exists()


def test_a_driver_elsewhere_whose_clock_is_right_is_seen_at_once_and_until_it_was_silent_for_long(
    tmp_path: Path, clock: Clock, witness: Witness
) -> None:
    say(tmp_path, FAR)
    assert witness.present() == [FAR]
    clock.now += EXPIRY - 1
    assert witness.present() == [FAR]
    clock.now += 1
    assert witness.present() == []  # by the calendar
    say(tmp_path, replace(FAR, beat=6))
    assert len(witness.present()) == 1
    clock.now += EXPIRY
    assert len(witness.present()) == 1  # it has moved, so that the calendar is not asked
    clock.now += 1
    assert witness.present() == []


@pytest.mark.parametrize("wrong", [-DAY, -EXPIRY, 2 * EXPIRY, DAY])
def test_a_clock_that_is_wrong_hides_nobody_and_keeps_nobody(
    tmp_path: Path, clock: Clock, witness: Witness, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    monkeypatch.setattr(witnesses, "TURN", 0.0)
    dead, alive = replace(FAR, token="dead", seen=NOW + wrong), replace(FAR, seen=NOW + wrong)
    say(tmp_path, dead)
    say(tmp_path, alive)
    assert Witness(tmp_path, clock, lambda: NOW).present() == []  # as far as is known

    def wait() -> None:
        clock.now += 1
        if clock.now == 10:
            say(tmp_path, replace(alive, beat=6, trials={"x": trial}))

    trial = Running("a trial", 10, alive.seen - 60, alive.seen - 1, driver=alive.who)
    (word,) = witness.listen(wait)
    assert clock.now == LISTEN  # for the dead one
    assert (word.token, word.seen) == ("abc", NOW + 10)  # when it was heard, by our calendar
    assert (word.trials["x"].began, word.trials["x"].heard) == (NOW - 50, NOW + 9)
    assert witness.listen(wait) == [word]
    assert clock.now == LISTEN  # all is known
    clock.now += EXPIRY + 1
    witness.sweep()
    assert not list(tmp_path.glob("drivers/*"))


def test_nobody_is_listened_for_who_is_known(
    tmp_path: Path, clock: Clock, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never() -> None:
        pytest.fail("there is nothing to wait for")

    say(tmp_path, FAR)
    say(tmp_path, Word("def", "here", os.getpid(), this_machine(), "another process of that number"))
    witness.listen(never)
    monkeypatch.setattr(witnesses, "TURN", 0.0)
    path_of(tmp_path, "odd").write_text("{")
    waits: list[Callable[[], object]] = [lambda: say(tmp_path, replace(FAR, token="odd"))]
    witness.listen(lambda: waits.pop()())  # it could not be read for a moment
    assert len(witness.present()) == 2
