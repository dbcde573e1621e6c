"""The training loop for optimizers that need more than gradients and a step, against loops written by hand."""

import gc
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairbench.arenas.shocks.kinds import KINDS
from fairbench.common.errors import UsageError
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.study.plan import arms
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.digests import weights_hash
from fairbench.training.trainer import Trainer
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("optimizer_needs")
STEPS = 4


@pytest.fixture
def spec_of(tiny_study):
    """A final trial of four steps with one evaluation in its middle."""
    spec = arms(tiny_study, lambda spec: None)[0].sweep[0]
    training = replace(spec.training, steps=STEPS, evaluations=2, log_every=1)

    def of(name, plan, lr=1e-2):
        optimizer = resolve_optimizer(name, plan).spec("vit", {"lr": lr}, STEPS)
        return replace(spec, optimizer=optimizer, training=training, stage="final")

    return of


def by_hand(spec, step):
    """A training with the model and the examples of fairbench, and a loop written by hand."""
    training = Trainer(spec, DeviceSlot())
    for _ in range(STEPS):
        examples = training.arena.examples(next(training.batches), training.noise)

        def backward(create_graph=False, clipped=True, examples=examples):
            training.model.zero_grad()
            loss = training.arena.loss(training.model, *examples)
            loss.backward(create_graph=create_graph)
            if clipped:
                nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
            return loss.detach()

        step(training, backward)
        training.schedule.step()
    return training


def test_lbfgs_gets_its_closure(spec_of):
    spec = spec_of("LBFGS", OptimizerPlan(factory="torch.optim:LBFGS", options={"max_iter": 3}), lr=0.1)
    record = trial(spec).result
    calls = 0

    def step(training, backward):
        def closure():
            nonlocal calls
            calls += 1
            return backward()

        training.optimizer.step(closure)

    hand = by_hand(spec, step)
    assert record.hashes.final_weights == weights_hash(hand.model)
    assert record.clip_rate <= 1
    assert record.gradients_per_step == 1 + calls / STEPS
    assert record.gradients_per_step > 3


class Curved(torch.optim.SGD):
    """Its authors' loop updates a curvature, by which it steps too."""

    def update_curvature(self):
        for p in self.param_groups[0]["params"]:
            self.state[p]["curvature"] = p.grad.abs()

    def step(self):
        super().step()
        for p in self.param_groups[0]["params"]:
            p.data.sub_(self.state[p].get("curvature", 0.0) * self.param_groups[0]["lr"])


class TwoSteps(torch.optim.SGD):
    """Climbs by the gradients, and descends by those that it meets there."""

    def first_step(self):
        for p in self.param_groups[0]["params"]:
            p.data.add_(p.grad, alpha=0.5)

    def second_step(self):
        self.step()


@pytest.mark.parametrize(("suffix", "gradients"), [("", 1.0), (" with gradients", 1.5)])
def test_a_method_is_called_every_few_steps(spec_of, suffix, gradients):
    spec = spec_of("Own", OptimizerPlan(f"{__name__}:Curved", needs=[f"update_curvature every 2 steps{suffix}"]))
    steps = iter(range(STEPS))

    def step(training, backward):
        backward()
        training.optimizer.step()
        if next(steps) % 2 == 0:
            if suffix:
                backward(clipped=False)
            training.optimizer.update_curvature()

    record = trial(spec).result
    assert record.hashes.final_weights == weights_hash(by_hand(spec, step).model)
    assert record.gradients_per_step == gradients


def test_two_steps_take_the_place_of_one(spec_of):
    spec = spec_of("Own", OptimizerPlan(f"{__name__}:TwoSteps"))

    def step(training, backward):
        backward()
        training.optimizer.first_step()
        backward()
        training.optimizer.second_step()

    record = trial(spec).result
    assert record.hashes.final_weights == weights_hash(by_hand(spec, step).model)
    assert record.gradients_per_step == 2


def test_every_optimizer_gets_the_same_shocks(spec_of):
    """A closure that is called several times in a step draws random shocks only once."""
    lbfgs = spec_of("LBFGS", OptimizerPlan(factory="torch.optim:LBFGS", options={"max_iter": 3}), lr=0.1)
    shock = {"kind": "heavy-tail", "at": [0.0, 0.5], "steps": 1, "tail": 2.0}
    states = []
    for spec in (lbfgs, spec_of("AdamW", OptimizerPlan())):
        training = Trainer(replace(spec, training=replace(spec.training, shock=shock)), DeviceSlot())
        for step in range(1, STEPS + 1):
            training.train_one_step(step)
        states.append(training.shocks.of(1).generator.get_state())
    assert torch.equal(*states)


def test_a_disturbed_gradient_keeps_its_derivative():
    p = nn.Parameter(torch.tensor([1.0, 2.0]))
    p.grad = torch.autograd.grad((p**3).sum(), p, create_graph=True)[0]
    KINDS["gradient"](torch.Generator().manual_seed(0), factor=2.0).gradients([p])
    assert p.grad.norm().item() == pytest.approx(2 * math.hypot(3, 12))
    assert torch.autograd.grad(p.grad.sum(), p)[0].tolist() == [6.0, 12.0]


def test_sophia_gets_gradients_with_a_derivative_and_none_are_left(spec_of):
    spec = spec_of("SophiaH", OptimizerPlan())

    def step(training, backward):
        with sdpa_kernel(SDPBackend.MATH):
            backward(True)
        training.optimizer.step()

    torch.manual_seed(0)
    hand = weights_hash(by_hand(spec, step).model)
    torch.manual_seed(0)
    training = Trainer(spec, DeviceSlot())
    gc.collect()
    gc.disable()
    alive = []
    for number in range(1, STEPS + 1):
        training.train_one_step(number)
        alive.append(sum(issubclass(type(x), torch.Tensor) for x in gc.get_objects()))
    gc.enable()
    assert weights_hash(training.model) == hand
    assert len(set(alive[1:])) == 1
    assert training.optimizer.state[training.params[0]]["hessian"].abs().sum() > 0


def test_schedule_free_is_evaluated_at_its_average_and_keeps_its_rate(spec_of):
    spec = spec_of("ScheduleFree", OptimizerPlan())
    rates = []

    def step(training, backward):
        training.optimizer.train()
        backward()
        rates.append(training.optimizer.param_groups[0]["lr"])
        training.optimizer.step()
        if len(rates) in (2, 4):
            training.optimizer.eval()

    record = trial(spec).result
    hand = by_hand(spec, step)
    assert record.hashes.final_weights == weights_hash(hand.model)
    assert rates == [0.005, 0.01, 0.01, 0.01]
    assert record.final["test"] == hand.evaluate("test")
    hand.optimizer.train()
    assert record.hashes.final_weights != weights_hash(hand.model)


@pytest.mark.parametrize(("name", "need"), [("SophiaH", "create_graph"), ("LBFGS", "closure")])
def test_compiled_trainings_refuse_needs_that_they_cannot_meet(spec_of, name, need):
    spec = spec_of(name, OptimizerPlan(factory="torch.optim:LBFGS" if name == "LBFGS" else ""))
    with pytest.raises(UsageError, match=f"needs '{need}' cannot be trained with training.compile"):
        Trainer(replace(spec, training=replace(spec.training, compile=True)), DeviceSlot())
