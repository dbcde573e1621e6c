"""A record shows that its trial shared this machine with another driver's trials."""

from dataclasses import replace

import fabricated
import pytest
from fabricated import Records

from fairbench.runner.coordination.heartbeat import Contention, Heartbeat
from fairbench.runner.coordination.status import this_machine
from fairbench.study.record import Record
from fairbench.study.records import Store
from fairbench.study.trial_queue import TrialQueue


class World:
    """A study that this driver runs, and another driver of this machine; `now` is the time."""

    def __init__(self, directory):
        study = fabricated.study(arenas=("gpt",), optimizers=("AdamW", "PsiLogic"))
        self.specs = [*iter(TrialQueue(study, lambda spec: None).next, None)]
        self.truth = Records(study)
        self.now = 0.0
        self.store = Store(directory)
        self.store.prepare()
        self.mine, self.theirs = (Heartbeat(directory, pace=lambda: self.now) for _ in range(2))
        self.contention = Contention(self.mine, self.store, lambda: self.now)

    def start(self, heartbeat, number):
        heartbeat.started(self.specs[number], "a trial")
        if heartbeat is self.mine:
            self.contention.started(self.specs[number], "a trial")
        self.wait()

    def wait(self):
        self.now += 2
        self.theirs.beat()
        self.contention.beat()

    def end_theirs(self):
        self.theirs.ended(self.specs[2], {})
        self.wait()

    def is_alone(self, number):
        """End a trial of this driver; whether its record says that it was alone."""
        record = self.truth(self.specs[number])
        spec = self.specs[number]
        self.store.write(spec, record)
        self.mine.ended(spec, record)
        assert not list(self.store.checkpoints.glob(f"{spec.id}*"))
        return bool(self.store.read(spec, Record).cost.alone)


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    with world.mine, world.theirs:
        yield world


def test_a_trial_is_not_alone_if_another_driver_runs_trials_meanwhile(world):
    world.start(world.mine, 0)
    assert world.is_alone(0)  # the other driver runs no trial
    world.start(world.mine, 1)
    world.start(world.theirs, 2)
    world.end_theirs()
    assert not world.is_alone(1)
    world.start(world.mine, 3)
    assert world.is_alone(3)


def test_a_resumed_trial_keeps_its_mark_and_a_restarted_one_does_not(world):
    world.start(world.theirs, 2)
    for number in (0, 1):
        world.start(world.mine, number)
        world.mine.paused(world.specs[number])
    world.store.checkpoint(world.specs[0].id).touch()
    world.end_theirs()
    for number, alone in ((1, True), (0, False)):
        world.start(world.mine, number)
        assert world.is_alone(number) is alone


@pytest.mark.parametrize(
    ("change", "alone"),
    [
        ({"machine": "another one"}, True),
        ({"started": "before"}, True),  # it was killed
        ({"machine": f"{this_machine().split()[0]} pid:[1]"}, False),  # it runs in a container of this machine
    ],
)
def test_only_live_drivers_of_this_machine_count(world, change, alone):
    world.theirs.status = replace(world.theirs.status, **change)
    world.start(world.theirs, 2)
    world.start(world.mine, 0)
    assert world.is_alone(0) is alone
