"""Claims in every order of the drivers' steps, and faults of disks and clocks."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairbench.common.errors import UsageError
from fairbench.runner.coordination.claims import ClaimFolder, Claims, open_claims, remove_dead_claims
from fairbench.runner.coordination.heartbeat import Heartbeat
from fairbench.runner.coordination.liveness import EXPIRY, Liveness
from fairbench.runner.coordination.status import TOKEN_DIGITS
from fairbench.study.records import Store

ME = "f" * TOKEN_DIGITS


class Pending(Exception):
    """Has the next operation of a driver."""


class Driver:
    """A driver that repeats its operations, with the answers that it got, up to the next one, which raises Pending."""

    def __init__(self, token, answers):
        self.token = token
        self._answers = iter(answers)

    def ask(self, *operation):
        for answer in self._answers:
            return answer
        raise Pending(*operation)

    def create(self, name, content):
        return bool(self.ask("create", name, content))

    def read(self, name):
        return self.ask("read", name)

    def remove(self, name):
        self.ask("remove", name)

    def is_dead(self, token):
        return token.startswith("dead")

    def claims(self):
        return Claims(self, self.token, self)


def runs(driver):
    """Take the trial, run it unless it has a record, and write the record."""
    claims = driver.claims()
    if not claims.take("trial"):
        return
    if driver.read("record") is None:
        driver.ask("begin")
        driver.ask("end")
        driver.create("record", driver.token)
    claims.complete("trial")


def stops(driver):
    """Take the trial, and be stopped before its end."""
    claims = driver.claims()
    if claims.take("trial"):
        if driver.read("record") is None:
            driver.ask("begin")
            driver.ask("end")
        claims.release("trial")


class Before:
    """The folder of claims as a driver found it, with no claim there, until it is `over`."""

    def __init__(self, driver):
        self.over = False
        self._driver = driver

    def create(self, name, content):
        return self._driver.create(name, content) if self.over else True

    def read(self, name):
        return self._driver.read(name) if self.over else None

    def remove(self, name):
        self._driver.remove(name)


def asleep(ends, record):
    """A driver that held the trial, was thought dead, and wakes up."""

    def wakes(driver):
        folder = Before(driver)
        claims = Claims(folder, driver.token, driver)
        assert claims.take("trial")
        folder.over = True
        if record:
            driver.create("record", driver.token)
        ends(claims)

    return wakes


def done(files, verb, *words):
    """The files after an operation, and what its driver gets as an answer."""
    after = dict(files)
    answer = None
    if verb == "create":
        name, content = words
        answer = name not in after
        after.setdefault(name, content)
    elif verb == "read":
        answer = after.get(words[0])
    elif verb == "remove":
        after.pop(words[0], None)
    return frozenset(after.items()), answer


def explore(files, *programs):
    """The final states of every order of the drivers' operations: files, trials begun, most trials at once."""
    start = (frozenset(files.items()), ((),) * len(programs), (0, 0, 0))
    seen = {start}
    left = [start]
    ends = set()
    while left:
        there, histories, (begun, now, most) = left.pop()
        waiting = False
        for i, program in enumerate(programs):
            try:
                kind = "dead" if program.__name__ == "wakes" else "driver"
                program(Driver(f"{kind} {i}", histories[i]))
                continue
            except Pending as pending:
                verb, *words = pending.args
            waiting = True
            begun_then = begun + (verb == "begin")
            now_then = now + (verb == "begin") - (verb == "end")
            files_then, answer = done(there, verb, *words)
            answered = list(histories)
            answered[i] = (*histories[i], answer)
            state = (files_then, tuple(answered), (begun_then, now_then, max(most, now_then)))
            if state not in seen:
                seen.add(state)
                left.append(state)
        if not waiting:
            ends.add((there, begun, most))
    return ends


CHAIN = {"trial": "dead 7", "trial.1": "dead 8"}


@pytest.mark.parametrize("files", [{}, {"trial": "dead 7"}, CHAIN])
def test_in_every_order_one_of_all_takers_runs_a_trial(files):
    for there, begun, most in explore(files, runs, runs, runs):
        assert {name for name, _ in there} == {"record"}
        assert (begun, most) == (1, 1)


@pytest.mark.parametrize("files", [{}, {"trial": "dead 7"}, CHAIN])
def test_in_every_order_what_a_stopped_driver_releases_can_be_taken(files):
    for there, begun, most in explore(files, stops, runs):
        names = {name for name, _ in there}
        assert most == 1
        assert 1 <= begun <= 2
        assert names in ({"record"}, set(files))  # the second driver was too early; a third would take it


@pytest.mark.parametrize("record", [True, False])
def test_an_owner_that_wakes_up_loses_no_trial(record):
    """If it has written the record, no other driver runs the trial again; otherwise two may run it at once."""

    def ends(claims):
        if record:
            claims.complete("trial")
        else:
            claims.release("trial")

    program = asleep(ends, record)
    for there, begun, most in explore({"trial": "dead 0"}, program, runs, runs):
        assert {name for name, _ in there} == {"record"}
        assert most <= (1 if record else 2)
        assert record or begun >= 1


def test_an_owner_that_wakes_up_releases_no_claim_of_another_driver():
    files = {"trial": "dead 0", "trial.1": "driver 9"}
    program = asleep(lambda claims: claims.release("trial"), record=False)
    assert explore(files, program, runs) == {(frozenset(files.items()), 0, 0)}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "claims").mkdir()
    return ClaimFolder(tmp_path / "claims")


def no_links(self, target):
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("links", [True, False])
def test_of_several_threads_one_creates_a_file(folder, monkeypatch, links):
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", no_links)

    made = []

    def make(me):
        for number in range(40):
            if folder.create(str(number), me):
                made.append((str(number), me))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make, [str(i) * TOKEN_DIGITS for i in range(4)]))
    assert sorted(name for name, _ in made) == sorted(map(str, range(40)))
    assert all(folder.read(name) == me for name, me in made)
    assert len(list(folder.path.iterdir())) == 40
    folder.remove("7")
    folder.remove("7")
    assert folder.read("7") is None


def test_a_link_whose_reply_was_lost_counts(folder, monkeypatch):
    real = Path.hardlink_to

    def lost(self, target):
        real(self, target)
        real(self, target)  # an NFS client repeats a request without a reply

    monkeypatch.setattr(Path, "hardlink_to", lost)
    assert folder.create("x", ME)
    assert not folder.create("x", "other")
    assert folder.read("x") == ME


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"cannot write .*nowhere/x: No such file"):
        ClaimFolder(tmp_path / "nowhere").create("x", "me")


def test_an_empty_claim_expires(tmp_path, folder):
    """Without hard links, an owner can be killed before it writes its token."""
    now = [0.0]
    (folder.path / "trial").touch()
    claims = Claims(folder, ME, Liveness(tmp_path, lambda: now[0]))
    assert not claims.take("trial")
    now[0] += EXPIRY + 1
    assert claims.take("trial")
    claims.complete("trial")
    assert not list(folder.path.iterdir())


def test_a_claim_that_no_driver_wrote_is_named_once_and_ignored(folder):
    said = []
    claims = Claims(folder, ME, None, said.append)
    (folder.path / "trial").write_text("by hand")
    for _ in range(2):
        assert claims.take("trial")
        claims.release("trial")
    assert len(said) == 1
    assert f"{folder.path}/trial" in said[0]
    (folder.path / "part").write_text(ME[1:])
    assert folder.read("part") == ""


def test_claims_end_with_their_block(tmp_path, folder):
    with Heartbeat(tmp_path) as mine, Heartbeat(tmp_path) as theirs:
        waited = []
        with open_claims(Store(tmp_path), mine) as claims:
            other = open_claims(Store(tmp_path), theirs)
            assert claims.take("trial")
            assert not other.take("trial")
            with claims.holding("plan"):
                assert not other.take("plan")
                assert {path.name for path in folder.path.iterdir()} == {"trial", "plan"}

            def waits():
                waited.append("")
                other.release("plan")

            assert other.take("plan")
            with claims.holding("plan", waits):
                assert len(waited) == 1
        assert not list(folder.path.iterdir())


def test_the_last_driver_removes_the_claims_of_killed_ones(tmp_path, folder):
    dead = "d" * TOKEN_DIGITS
    store = Store(tmp_path)
    folder.create("plan", dead)
    folder.create("timing", dead)
    with Heartbeat(tmp_path) as mine:
        with open_claims(store, mine) as claims, claims.holding("plan"):
            assert {path.name for path in folder.path.iterdir()} == {"plan", "plan.1", "timing"}
        remove_dead_claims(store)
        assert {path.name for path in folder.path.iterdir()} == {"plan", "timing"}, "a driver is still here"
    remove_dead_claims(store)
    assert not list(folder.path.iterdir())
