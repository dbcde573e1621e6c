"""The progress of a study, as its driver shows it and as others read it from its directory; tests set the clocks."""

import io
import os
import socket
from dataclasses import replace
from functools import partial

import fabricated
import pytest
from fabricated import Records, edited, sweep
from rich.console import Console

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.runner.coordination.heartbeat import BEAT, Heartbeat
from fairbench.runner.coordination.status import read_statuses
from fairbench.runner.progress.live import LiveProgress
from fairbench.runner.progress.watch import Watcher, watch_study
from fairbench.study.history import write_history
from fairbench.study.plan import arms
from fairbench.study.record import Record, failed
from fairbench.study.records import Store
from fairbench.study.trial_queue import Progress, TrialQueue

ME = f"{socket.gethostname()} {os.getpid()}"


def text_console(terminal=False):
    return Console(file=io.StringIO(), width=150, force_terminal=terminal, highlight=False)


def text_of(console):
    return console.file.getvalue()


class World:
    """A study in a directory; its records say that each trial took a second."""

    def __init__(self, directory):
        self.now = 1000.0
        self.directory = directory
        self.store = Store(directory)
        self.study = fabricated.study(arenas=("gpt",), optimizers=("AdamW", "PsiLogic"), seeds=(1, 2))
        self.truth = Records(self.study)
        write_history(directory, fabricated.history(self.study))

    def clock(self):
        return self.now

    def next(self):
        return TrialQueue(self.study, partial(self.store.read, kind=Record)).next()

    def end(self, spec):
        self.store.write(spec, self.truth(spec))

    def heartbeat(self):
        return Heartbeat(self.directory, self.clock, self.clock)

    def shown(self):
        console = text_console()
        console.print(Watcher(self.directory, self.clock).status())
        return " ".join(text_of(console).split())


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_running_trials_are_shown_until_they_end(world):
    assert "0 of 10 trials; no driver runs it now" in world.shown()
    spec = world.next()
    with world.heartbeat() as heartbeat:
        assert "no driver" not in world.shown()
        world.now += 2
        heartbeat.started(spec, spec.label())
        assert f"{spec.label()} 0/10 ? {ME}" in world.shown()
        world.now += 4
        heartbeat.running(spec, 5, 2.0)
        assert f"{spec.label()} 5/10 2.0000 0:04 {ME}" in world.shown()
        world.now += 0.5
        heartbeat.running(spec, 10, 1.0)  # too soon to be written
        assert " 5/10 " in world.shown()
        world.now += 0.5
        heartbeat.beat()
        assert " 10/10 " in world.shown()
        world.now += 30
        assert "last seen 30 s ago" in world.shown()
        world.end(spec)  # the status of its driver does not show that yet
        shown = world.shown()
        assert spec.label() not in shown
        assert "1 of 10 trials, about 0:09 left" in shown  # 9 trials, each of 10 steps in a second
        heartbeat.ended(spec, {})
    assert not list(world.directory.glob("drivers/*"))


def test_a_driver_and_the_status_count_the_same_trials_and_the_same_time(world):
    """At each trial of a study whose final trials are not known before its search has ended."""
    final = replace(world.study.suite.final, settings=3)
    the_study = replace(world.study, suite=replace(world.study.suite, final=final))
    write_history(world.directory, fabricated.history(the_study))
    queue = TrialQueue(the_study, partial(world.store.read, kind=Record))
    console = text_console()
    with world.heartbeat() as heartbeat, LiveProgress(console, world.clock) as driver:
        for observer in (heartbeat, driver):
            observer.measured({"gpt": 0.5}, 3.0)
        heartbeat.announce({"device": "here"})
        while spec := queue.next():
            progress = queue.progress()
            driver.planned(progress)
            shown = Watcher(world.directory, world.clock).status()
            assert (shown.to_json()["done"], shown.to_json()["trials"]) == (progress.done, progress.trials)
            assert shown.left == pytest.approx(driver.eta())
            driver.started(spec, spec.label())
            world.now += 1
            world.end(spec)
            driver.ended(spec, world.truth(spec))
            queue.ended(spec)
    assert progress.trials > 10


def test_the_status_of_a_killed_driver_is_replaced(world):
    """Its trials run again under another driver, with a later status."""
    spec = world.next()
    killed = world.heartbeat()
    killed.status = replace(killed.status, machine="another one")
    killed.__enter__()
    world.now += 2
    killed.started(spec, spec.label())
    world.now += 98
    assert "last seen 98 s ago" in world.shown()
    with world.heartbeat() as heartbeat:
        world.now += 2
        heartbeat.started(spec, spec.label())
        shown = world.shown()
        assert shown.count(spec.label()) == 1
        assert "last seen" not in shown
        assert "2 drivers: " in shown


def test_a_calendar_clock_that_goes_backwards_stops_no_beat(world):
    pace = [0.0]
    with Heartbeat(world.directory, world.clock, lambda: pace[0]) as heartbeat:
        heartbeat.started(world.next(), "a trial")
        world.now -= 86_400
        pace[0] += 1
        heartbeat.beat()
        (status,) = read_statuses(world.directory)
        assert (status.beat, len(status.trials)) == (2, 1)
        pace[0] += BEAT
        heartbeat.beat()
        assert read_statuses(world.directory)[0].beat == 3


def test_watching_waits_for_the_preflight(world):
    """The first driver has no plan yet; once there is one, the study is shown."""
    config = world.directory / "config.json"
    console = text_console()
    content = config.read_bytes()
    config.unlink()
    with pytest.raises(UsageError, match=r"holds no study: there is no config.json"):
        world.shown()
    shown = []

    def sleep(seconds):
        shown.append(world.shown())
        config.write_bytes(content)
        while spec := world.next():
            world.end(spec)

    heartbeat = world.heartbeat().__enter__()
    assert world.shown() == f"no plan yet: {ME} prepares the study"
    assert main(["status", str(world.directory)]) == 0
    watch_study(world.directory, console, lambda seconds: (sleep(seconds), heartbeat.__exit__(None, None, None))[1])
    assert shown == [f"no plan yet: {ME} prepares the study"]
    assert "10 of 10 trials" in text_of(console)


@pytest.mark.parametrize("terminal", [False, True])
def test_watching_ends_with_the_study_and_writes_nothing(world, terminal):
    console = text_console(terminal)
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        world.end(world.next())

    watch_study(world.directory, console, sleep)
    assert len(waits) == 10
    assert "10 of 10 trials" in text_of(console)
    if not terminal:
        assert [line[:14] for line in text_of(console).splitlines()[:10]] == [f"{i} of 10 trials" for i in range(10)]
    assert {path.name for path in world.directory.iterdir()} == {"config.json", "trials"}


def test_watching_does_not_wait_for_a_failed_trial(world):
    """Nothing more can run before that trial runs again, and no driver runs it."""
    world.truth.cases.append(sweep(arena="gpt", optimizer="AdamW", lr=1e-4, outcome="failed"))
    while spec := TrialQueue(world.study, partial(world.store.read, kind=Record)).next():
        world.end(spec)
    console = text_console()
    watch_study(world.directory, console, lambda seconds: pytest.fail("there is nothing to wait for"))
    assert "8 of 10 trials" in text_of(console)


def test_plain_lines_show_trials_loss_and_time_left(world, tiny_study):
    specs = [spec for arm in arms(tiny_study, lambda spec: None)[:2] for spec in arm.sweep]
    first, second, third, fourth = (replace(x, training=replace(x.training, device="cuda")) for x in specs)
    console = text_console()
    with LiveProgress(console, world.clock) as progress:
        assert progress.eta() is None
        for spec in (first, second, third, fourth):
            progress.started(spec, spec.label())
        world.now += 20
        progress.running(first, 5, 2.5)
        progress.planned(Progress(done=1, trials=10, steps_left={"vit": 120}))
        progress.ended(first, Records().record(first, 0.5))
        # of its 20 s, the 10 steps took 0.1 s; nine trials are left, and three run
        assert progress.eta() == pytest.approx((120 * 0.01 + 9 * 19.9) / 3)
        world.now += 20
        progress.running(second, 5, 2.25)
        progress.running(second, 6, 2.0)  # too soon after the last line
        progress.ended(second, failed(second, "ValueError", "no [bold]", ""))
        progress.ended(third, edited(Records().record(third, "diverged"), "result.steps", 10))
    assert text_of(console).splitlines() == [
        "0 of 0 trials | vit AdamW lr=0.001 sweep seed 0 step 5/10 loss 2.5",
        "vit: the data do not fit on the GPU, batches are sent from pinned memory",  # once in each arena
        "1 of 10 trials, about 1:00 left | vit AdamW lr=0.01 sweep seed 0 step 5/10 loss 2.25",
        "failed: vit AdamW lr=0.01 sweep seed 0: ValueError: no [bold]",
        "diverged: vit PsiLogic lr=0.001 sweep seed 0 at step 10",
    ]


def test_a_terminal_shows_a_table(world):
    spec = world.next()
    console = text_console(terminal=True)
    with console.capture() as captured, LiveProgress(console, world.clock) as progress:
        progress.planned(Progress(done=3, trials=10, steps_left={"gpt": 70}))
        progress.started(spec, spec.label())
        world.now += 3
        progress.running(spec, 2, 1.5)
    for text in ("3 of 10 trials", "2/10", "1.5000", "0:12"):
        assert text in captured.get()  # the table is shown a last time at the end
