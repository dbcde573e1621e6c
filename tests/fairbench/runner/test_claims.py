"""Claims: every order of the drivers' steps, and faults of disks and clocks."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairbench.common.errors import UsageError
from fairbench.runner.coordination.claims import ClaimFolder, Claims, open_claims
from fairbench.runner.coordination.heartbeat import Heartbeat
from fairbench.runner.coordination.liveness import EXPIRY, Liveness
from fairbench.study.records import Store

Answers = tuple[Any, ...]
Files = frozenset[tuple[str, str]]


class Pending(Exception):
    """What a driver does next."""


class Driver:
    """A driver stopped in its course: it does again what it has done, as often as it is asked what it does next.

    Args:
        token: the driver.
        answers: what it was told so far.
    """

    def __init__(self, token: str, answers: Answers) -> None:
        self.token, self._answers = token, iter(answers)

    def ask(self, *operation: str) -> Any:
        for answer in self._answers:
            return answer
        raise Pending(*operation)

    def create(self, name: str, content: str) -> bool:
        return bool(self.ask("create", name, content))

    def read(self, name: str) -> str | None:
        return self.ask("read", name)  # type: ignore[no-any-return]

    def remove(self, name: str) -> None:
        self.ask("remove", name)

    def is_dead(self, token: str) -> bool:
        return token.startswith("dead")

    def claims(self) -> Claims:
        return Claims(self, self.token, self)  # type: ignore[arg-type]


def runs(driver: Driver) -> None:
    """Take the trial, run it unless it has a record, and write that."""
    claims = driver.claims()
    if not claims.take("trial"):
        return
    if driver.read("record") is None:
        driver.ask("begin")
        driver.ask("end")
        driver.create("record", driver.token)
    claims.complete("trial")


def stops(driver: Driver) -> None:
    """Take the trial, and be stopped before its end."""
    claims = driver.claims()
    if claims.take("trial"):
        if driver.read("record") is None:
            driver.ask("begin")
            driver.ask("end")
        claims.release("trial")


def asleep(ends: Callable[[Claims], None], record: bool) -> Callable[[Driver], None]:
    """One that had the trial and was thought gone, and wakes up."""

    def wakes(driver: Driver) -> None:
        claims = driver.claims()
        claims._held["trial"] = 0
        if record:
            driver.create("record", driver.token)
        ends(claims)

    return wakes


def explore(files: dict[str, str], *programs: Callable[[Driver], None]) -> set[tuple[Files, int, int]]:
    """All ends of all orders in which drivers can do what they do: files, trials begun, and how many at once."""
    start = (frozenset(files.items()), tuple(() for _ in programs), (0, 0, 0))
    seen, left, ends = {start}, [start], set()
    while left:
        there, histories, (begun, now, most) = left.pop()
        waiting = False
        for i, program in enumerate(programs):
            try:
                program(Driver(f"{'dead' if program.__name__ == 'wakes' else 'driver'} {i}", histories[i]))
                continue
            except Pending as pending:
                verb, *words = pending.args
            waiting = True
            after, answer, runs_now = dict(there), None, now + (verb == "begin") - (verb == "end")
            if verb == "create" and (answer := words[0] not in after):
                after[words[0]] = words[1]
            elif verb == "read":
                answer = after.get(words[0])
            elif verb == "remove":
                after.pop(words[0], None)
            told = (*histories[:i], (*histories[i], answer), *histories[i + 1 :])
            state = frozenset(after.items()), told, (begun + (verb == "begin"), runs_now, max(most, runs_now))
            if state not in seen:
                seen.add(state)
                left.append(state)
        if not waiting:
            ends.add((there, begun, most))
    return ends


CHAIN = {"trial": "dead 7", "trial.1": "dead 8"}


@pytest.mark.parametrize("files", [{}, {"trial": "dead 7"}, CHAIN])
def test_in_every_order_one_of_all_takers_runs_a_trial(files: dict[str, str]) -> None:
    for there, begun, most in explore(files, runs, runs, runs):
        assert {name for name, _ in there} == {"record"}
        assert (begun, most) == (1, 1)


@pytest.mark.parametrize("files", [{}, {"trial": "dead 7"}, CHAIN])
def test_in_every_order_what_a_stopped_driver_releases_can_be_taken(files: dict[str, str]) -> None:
    for there, begun, most in explore(files, stops, runs):
        names = {name for name, _ in there}
        assert most == 1
        assert 1 <= begun <= 2
        assert names in ({"record"}, set(files))  # the second was there too early; a third takes it, see above


@pytest.mark.parametrize("record", [True, False])
def test_an_owner_that_wakes_up_loses_no_trial(record: bool) -> None:
    """With its record all others are spared; without, two may run the trial at the same time, and no more."""
    program = asleep(lambda claims: (claims.complete if record else claims.release)("trial"), record)
    for there, begun, most in explore({"trial": "dead 0"}, program, runs, runs):
        assert {name for name, _ in there} == {"record"}
        assert most <= (1 if record else 2)
        assert record or begun >= 1


def test_an_owner_that_wakes_up_releases_no_claim_of_another_driver() -> None:
    files = {"trial": "dead 0", "trial.1": "driver 9"}
    program = asleep(lambda claims: claims.release("trial"), record=False)
    assert explore(files, program, runs) == {(frozenset(files.items()), 0, 0)}


@pytest.fixture
def folder(tmp_path: Path) -> ClaimFolder:
    (tmp_path / "claims").mkdir()
    return ClaimFolder(tmp_path / "claims")


def no_links(self: Path, target: Path) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("links", [True, False])
def test_of_many_that_make_a_file_at_once_one_does(
    folder: ClaimFolder, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    made: list[tuple[str, str]] = []

    def make(me: str) -> None:
        made.extend((name, me) for name in map(str, range(40)) if folder.create(name, me))

    threads = [threading.Thread(target=make, args=(f"thread {i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for name, _ in made) == sorted(map(str, range(40)))
    assert all(folder.read(name) == me for name, me in made)
    assert len(list(folder.path.iterdir())) == 40
    folder.remove("7")
    folder.remove("7")
    assert folder.read("7") is None


def test_a_link_whose_answer_was_lost_counts(folder: ClaimFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.hardlink_to

    def lost(self: Path, target: Path) -> None:
        real(self, target)
        real(self, target)  # what the client of NFS sends when it hears nothing

    monkeypatch.setattr(Path, "hardlink_to", lost)
    assert folder.create("x", "me")
    assert not folder.create("x", "other")
    assert folder.read("x") == "me"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*nowhere/x: No such file"):
        ClaimFolder(tmp_path / "nowhere").create("x", "me")


def test_an_empty_claim_expires(tmp_path: Path, folder: ClaimFolder) -> None:
    """Its owner was killed between two moments where there are no hard links."""
    now = [0.0]
    (folder.path / "trial").touch()
    claims = Claims(folder, "me", Liveness(tmp_path, lambda: now[0]))
    assert not claims.take("trial")
    now[0] += EXPIRY + 1
    assert claims.take("trial")
    claims.complete("trial")
    assert not list(folder.path.iterdir())


def test_claims_end_with_their_block(tmp_path: Path, folder: ClaimFolder) -> None:
    with Heartbeat(tmp_path) as mine, Heartbeat(tmp_path) as theirs:
        waited: list[str] = []
        with open_claims(Store(tmp_path), mine) as claims:
            other = open_claims(Store(tmp_path), theirs)
            assert claims.take("trial")
            assert not other.take("trial")
            with claims.holding("plan"):
                assert not other.take("plan")
                assert {path.name for path in folder.path.iterdir()} == {"trial", "plan"}

            def waits() -> None:
                waited.append("")
                other.release("plan")

            assert other.take("plan")
            with claims.holding("plan", waits):
                assert len(waited) == 1
        assert not list(folder.path.iterdir())
