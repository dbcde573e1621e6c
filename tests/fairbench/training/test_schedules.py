"""The schedules against torch's schedulers, and the rates that a trainer sets."""

from dataclasses import replace

import fabricated
import pytest
import torch
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR

from fairbench.optimizers.treatments import SCHEDULES
from fairbench.study.plan import arms
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.schedules import lr_factor
from fairbench.training.trainer import Trainer

pytestmark = pytest.mark.xdist_group("schedules")
WARMUP = 7
STABLE = 32
STEPS = 47


def by_torch(optimizer, schedule, min_lr):
    """The same schedule of torch's parts."""
    decay = STEPS - WARMUP
    warm_up = LinearLR(optimizer, 1 / WARMUP, 1.0, WARMUP - 1)
    if schedule == "cosine":
        return SequentialLR(optimizer, [warm_up, CosineAnnealingLR(optimizer, decay, min_lr)], [WARMUP])
    if schedule == "linear":
        return SequentialLR(optimizer, [warm_up, LinearLR(optimizer, 1.0, min_lr, decay)], [WARMUP])
    stable = ConstantLR(optimizer, 1.0, decay)
    if schedule == "constant":
        return SequentialLR(optimizer, [warm_up, stable], [WARMUP])
    last = LinearLR(optimizer, 1.0, min_lr, decay - STABLE)
    return SequentialLR(optimizer, [warm_up, stable, last], [WARMUP, WARMUP + STABLE])


@pytest.mark.parametrize("min_lr", [0.0, 0.1])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_factors_are_those_of_torchs_schedulers(schedule, min_lr):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    scheduler = by_torch(optimizer, schedule, min_lr)
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    rates.append(1.0 if schedule == "constant" else min_lr)
    training = fabricated.training(steps=STEPS, warmup_steps=WARMUP, schedule=schedule, min_lr=min_lr)
    factors = [lr_factor(step, training) for step in range(STEPS + 1)]
    assert factors == pytest.approx(rates, abs=1e-12)


def rates_of(spec):
    """The factor of the rate in every step of a trainer."""
    trainer = Trainer(spec, DeviceSlot())
    rates = []
    for step in range(1, spec.training.steps + 1):
        rates.append(trainer.optimizer.param_groups[0]["lr"] / spec.lr)
        trainer.train_one_step(step)
    return rates


def test_a_trainer_follows_the_schedule_unless_the_optimizer_needs_a_constant_rate(tiny_study):
    spec = arms(tiny_study, lambda spec: None)[0].sweep[0]
    spec = replace(spec, training=replace(spec.training, steps=6, schedule="linear", min_lr=0.2))
    assert rates_of(spec) == pytest.approx([0.5, 1.0, 1.0, 0.8, 0.6, 0.4])
    constant = replace(spec, optimizer=replace(spec.optimizer, needs=("constant_lr",)))
    assert rates_of(constant) == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_the_schedule_is_part_of_an_identity_and_the_default_leaves_it_as_it_was(tiny_study):
    spec = arms(tiny_study, lambda spec: None)[0].sweep[0]
    assert not {"schedule", "min_lr"} & spec.to_json()["training"].keys()
    of_schedule = replace(spec, training=replace(spec.training, schedule="wsd"))
    of_rate = replace(spec, training=replace(spec.training, min_lr=0.1))
    assert len({spec.id, of_schedule.id, of_rate.id}) == 3
    for other in (of_schedule, of_rate):
        assert TrialSpec.from_json(other.to_json()) == other
    assert lr_factor.__module__ in spec.arena.code  # an edit of a formula gives other trials
