"""Trials that share cores or GPUs with those of other drivers say so in their records."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fabricated
import pytest
from fabricated import Records

from fairbench.runner.coordination.contention import Company, crowded
from fairbench.runner.coordination.heartbeat import Presence
from fairbench.runner.coordination.status import Word, this_machine
from fairbench.runner.run_options import Conduct, cores, units_of
from fairbench.study.records import Record, Store, judged
from fairbench.study.schedule import Schedule
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.place import Place

BOTH, FIRST, SECOND = ["core 0", "core 1"], ["core 0"], ["core 1"]


class World:
    """A study that this driver runs on two cores, and another driver of this machine, too.

    Args:
        directory: its output directory.
    """

    def __init__(self, directory: Path) -> None:
        study = fabricated.study(arenas=("gpt",), optimizers=("AdamW", "PsiLogic"))
        schedule = Schedule(study, lambda spec: None)
        self.specs = [spec for spec in iter(schedule.next, None) if spec is not None]
        self.truth, self.now, self.store = Records(fabricated.finals(study)), 0.0, Store(directory)
        self.store.prepare()
        self.mine, self.theirs = (Presence(directory, pace=self.pace) for _ in range(2))
        self.company = Company(self.mine, self.store, self.pace)

    def pace(self) -> float:
        return self.now

    def starts(self, presence: Presence, *numbers: int) -> None:
        for number in numbers:
            presence.started(self.specs[number])
        if presence is self.mine:
            self.company.started(self.specs[number])
        self.passes()

    def passes(self) -> None:
        self.now += 2
        self.theirs.beat()
        self.company.beat()

    def ends(self, number: int) -> bool:
        """Whether the record says that the trial was alone."""
        truth, spec = self.truth(self.specs[number]), self.specs[number]
        assert truth is not None
        record: Record = judged(truth, self.store)
        self.store.write(record)
        self.mine.ended(spec, record)
        assert not list(self.store.checkpoints.glob(f"{spec.id}*"))
        found: Any = self.store.read(spec)
        return bool(found["cost"]["alone"])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    with world.mine, world.theirs:
        world.mine.join({"device": "a"}, BOTH)
        world.theirs.join({"device": "a"}, BOTH)
        yield world


def test_a_driver_that_joins_in_the_middle_of_a_trial_is_company(world: World) -> None:
    world.starts(world.mine, 0)
    world.starts(world.theirs, 2)
    assert world.ends(0)  # two trials on two cores
    world.starts(world.mine, 1)
    world.starts(world.theirs, 3)
    world.theirs.ended(world.specs[3], {})
    world.passes()
    assert not world.ends(1)
    world.theirs.ended(world.specs[2], {})
    world.passes()
    world.starts(world.mine, 4)
    assert world.ends(4)


def test_what_a_trial_shared_is_known_to_whoever_goes_on_with_it(world: World) -> None:
    world.starts(world.theirs, 2, 3)
    for number, checkpoint in ((0, True), (1, False)):
        spec: TrialSpec = world.specs[number]
        world.starts(world.mine, number)
        if checkpoint:
            world.store.checkpoint(spec.id).touch()
        world.mine.paused(spec)
    world.theirs.ended(world.specs[2], {})
    world.theirs.ended(world.specs[3], {})
    world.passes()
    world.starts(world.mine, 1)  # anew
    assert world.ends(1)
    world.starts(world.mine, 0)
    assert not world.ends(0)


@pytest.mark.parametrize(
    ("change", "alone"),
    [
        ({"machine": "another one"}, True),
        ({"units": ["core 7"]}, True),
        ({"began": "before"}, True),  # it was killed
        ({"machine": f"{this_machine().split()[0]} pid:[1]"}, False),  # it is in a container here
    ],
)
def test_company_is_who_is_on_the_same_cores_now(world: World, change: dict[str, Any], alone: bool) -> None:
    world.theirs.word = replace(world.theirs.word, **change)
    world.starts(world.theirs, 2, 3)
    world.starts(world.mine, 0, 1)
    assert world.ends(0) is alone


def said(units: list[str], trials: int) -> Word:
    return Word("", "", 0, "", "", units=units, trials=dict.fromkeys(map(str, range(trials))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("units", "trials", "others", "shared"),
    [
        (BOTH, 2, [], False),
        (BOTH, 3, [], False),  # the driver knows that itself
        (BOTH, 1, [said(BOTH, 1)], False),
        (BOTH, 2, [said(BOTH, 1)], True),
        (BOTH, 2, [said(BOTH, 0)], False),  # it waits, as for its turn to time
        (FIRST, 1, [said(SECOND, 2)], False),
        (FIRST, 1, [said(BOTH, 1)], False),
        (FIRST, 1, [said(BOTH, 1), said(SECOND, 1)], True),  # where the one evades, the other is
        (FIRST, 1, [said(SECOND, 1), said(BOTH, 1)], True),
        (["a GPU"], 1, [said(["a GPU"], 1)], True),
        (["a GPU"], 1, [said(["another"], 1)], False),
        ([], 2, [said([], 2), said(BOTH, 9)], False),  # Ray says where
    ],
)
def test_as_many_trials_as_cores_or_gpus_are_alone(
    units: list[str], trials: int, others: list[Word], shared: bool
) -> None:
    assert crowded(units, trials, others) is shared


def test_units_are_cores_or_gpus_whatever_their_numbers_are_here() -> None:
    gpus = ["GPU-a", "GPU-b", "GPU-c"]
    found = units_of(Conduct([Place()] * 3), gpus)
    assert (len(found), len(set(found))) == (cores(), cores())
    assert f"core {min(os.sched_getaffinity(0))}" in found
    assert units_of(Conduct([Place("cuda:2"), Place("cuda:0")] * 2), gpus) == ["GPU-a", "GPU-c"]
    assert units_of(Conduct([Place()], ray="local"), gpus) == []
