"""The status of a running study, read from its output directory, on a moved clock."""

import io
import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import fabricated
import pytest
from fabricated import Records
from rich.console import Console

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.runner.coordination import liveness
from fairbench.runner.coordination.heartbeat import BEAT, Heartbeat
from fairbench.runner.coordination.status import read_statuses, this_machine
from fairbench.runner.progress.watch import Watcher, watch
from fairbench.study.history import write_history
from fairbench.study.records import Store
from fairbench.study.schedule import Schedule
from fairbench.study.trial_spec import TrialSpec


class World:
    """A study in a directory, whose trials end one after the other; each takes 4 s, the clock of the records 1 s."""

    def __init__(self, directory: Path) -> None:
        self.now, self.directory, self.store = 1000.0, directory, Store(directory)
        self.study = fabricated.study(arenas=("gpt",), optimizers=("AdamW", "PsiLogic"), seeds=(1, 2))
        self.truth = Records(fabricated.finals(self.study))
        write_history(directory, fabricated.history(self.study))

    def clock(self) -> float:
        return self.now

    def next(self) -> TrialSpec | None:
        return Schedule(self.study, self.store.read).next()

    def end(self, spec: TrialSpec) -> None:
        record = self.truth(spec)
        assert record is not None
        self.store.write(record)

    def drivers(self) -> list[Path]:
        return list(self.directory.glob("drivers/*.json"))

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self.directory, self.clock, self.clock)

    def shown(self) -> str:
        console = Console(file=io.StringIO(), width=150)
        console.print(Watcher(self.directory, self.clock).status().view())
        return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_running_trials_are_shown_until_they_end(world: World) -> None:
    assert "0 of 10 trials; no driver runs it now" in world.shown()
    spec = world.next()
    assert spec is not None
    with world.heartbeat() as heartbeat:
        assert "nobody" not in world.shown()
        world.now += 2
        heartbeat.started(spec)
        me = f"{socket.gethostname()} {os.getpid()}"
        assert f"{spec.label()} 0/10 ? {me}" in world.shown()
        world.now += 4
        heartbeat.running(spec, 5, 2.0)
        assert f"{spec.label()} 5/10 2.0000 0:04 {me}" in world.shown()
        world.now += 0.5
        heartbeat.running(spec, 10, 1.0)  # too soon to be written
        assert " 5/10 " in world.shown()
        world.now += 0.5
        heartbeat.beat()
        assert " 10/10 " in world.shown()
        world.now += 30
        assert "last seen 30 s ago" in world.shown()
        world.end(spec)  # its driver has not said so yet
        shown = world.shown()
        assert spec.label() not in shown
        assert "1 of 10 trials, about 0:09 left" in shown  # 9 trials, each of 10 steps in a second
        heartbeat.ended(spec, {})
    assert not world.drivers()


def test_the_status_of_a_killed_driver_is_replaced(world: World) -> None:
    """Its trials run again under another driver, with a later status; a driver of its machine removes it."""
    spec = world.next()
    assert spec is not None
    killed = world.heartbeat()
    killed.status = replace(killed.status, machine="another one")
    killed.__enter__()
    world.now += 2
    killed.started(spec)
    world.now += 98
    assert "last seen 98 s ago" in world.shown()
    with world.heartbeat() as heartbeat:
        world.now += 2
        heartbeat.started(spec)
        shown = world.shown()
        assert shown.count(spec.label()) == 1
        assert "last seen" not in shown
        assert "2 drivers: " in shown
    (word,) = world.drivers()
    said = json.loads(word.read_text())
    word.write_text(json.dumps({**said, "machine": this_machine(), "started": "long ago"}))  # the number is reused
    assert "no driver runs it now" in world.shown()
    with world.heartbeat():
        assert len(world.drivers()) == 1
        assert word not in world.drivers()


def test_a_calendar_clock_that_goes_backwards_stops_no_beat(world: World) -> None:
    pace = [0.0]
    with Heartbeat(world.directory, world.clock, lambda: pace[0]) as heartbeat:
        heartbeat.started(world.next())  # type: ignore[arg-type]
        world.now -= 86_400
        pace[0] += 1
        heartbeat.beat()
        (word,) = read_statuses(world.directory)
        assert (word.beat, len(word.trials)) == (2, 1)
        pace[0] += BEAT
        heartbeat.beat()
        assert read_statuses(world.directory)[0].beat == 3


def test_watching_waits_for_the_preflight(world: World) -> None:
    """The first driver has no plan yet; once there is one, the study is shown."""
    config, console = world.directory / "config.json", Console(file=io.StringIO(), width=150)
    content = config.read_bytes()
    config.unlink()
    with pytest.raises(UsageError, match=r"holds no study: there is no config.json"):
        world.shown()
    shown: list[str] = []

    def sleep(seconds: float) -> None:
        shown.append(world.shown())
        config.write_bytes(content)
        while spec := world.next():
            world.end(spec)

    heartbeat = world.heartbeat().__enter__()
    assert world.shown() == f"no plan yet: {socket.gethostname()} {os.getpid()} prepares the study"
    assert main(["status", str(world.directory)]) == 0
    watch(world.directory, console, lambda seconds: (sleep(seconds), heartbeat.__exit__(None, None, None))[1])
    assert shown == [f"no plan yet: {socket.gethostname()} {os.getpid()} prepares the study"]
    assert "10 of 10 trials" in console.file.getvalue()  # type: ignore[attr-defined]


def test_drivers_in_a_copied_directory_are_not_alive(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was copied from another machine, whose driver was killed with it."""
    heartbeat = world.heartbeat()
    heartbeat.status = replace(heartbeat.status, machine="another one")
    heartbeat.__enter__()
    assert "nobody" not in world.shown()
    monkeypatch.setattr(liveness, "BEAT_WAIT", 0.1)
    world.now += 86_400
    before = {path: path.read_bytes() for path in world.directory.rglob("*.json")}
    assert "no driver runs it now" in world.shown()
    assert {path: path.read_bytes() for path in world.directory.rglob("*.json")} == before


@pytest.mark.parametrize("terminal", [False, True])
def test_watching_ends_with_the_study_and_writes_nothing(world: World, terminal: bool) -> None:
    console, waits = Console(file=io.StringIO(), width=150, force_terminal=terminal, highlight=False), []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        spec = world.next()
        assert spec is not None
        world.end(spec)

    watch(world.directory, console, sleep)
    assert len(waits) == 10
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "10 of 10 trials" in shown
    if not terminal:
        lines = shown.splitlines()
        assert [line[:14] for line in lines[:10]] == [f"{i} of 10 trials" for i in range(10)]
    assert {path.name for path in world.directory.iterdir()} == {"config.json", "trials"}


def test_watching_does_not_wait_for_a_failed_trial(world: World) -> None:
    """Nothing more can run before that trial runs again, and no driver runs it."""
    world.truth.sweeps["gpt", "AdamW"] = {0.0001: "failed"}
    while spec := Schedule(world.study, world.store.read).next():
        world.end(spec)
    console = Console(file=io.StringIO(), width=150)
    watch(world.directory, console, lambda seconds: pytest.fail("there is nothing to wait for"))
    assert "8 of 10 trials" in console.file.getvalue()  # type: ignore[attr-defined]
