"""Accelerate: the same steps as a loop written by hand, and checkpoints that resume as if never stopped.

It is imported in the fixture, since xdist's workers all import this file and only one of them needs it.
"""

import pytest
import torch
from training import assert_same, classification_batches, classifier, train

from psilogic import PsiLogic, monitor

pytestmark = pytest.mark.xdist_group("accelerate")  # one worker imports it

OPTIONS = {"lr": 0.02, "weight_decay": 0.01, "gamma": 5.0, "total_steps": 12, "chaos_warmup": 3}
LOSS = torch.nn.functional.cross_entropy


@pytest.fixture
def accelerate():
    """The package; its settings are singletons, which refuse another precision."""
    import accelerate
    from accelerate.state import AcceleratorState, GradientState

    yield accelerate
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def model_and_optimizer():
    model = classifier()
    optimizer = PsiLogic(model.parameters(), **OPTIONS)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)


class Prepared:
    """An accelerator, and a model, an optimizer and a scheduler that it prepared; monitors from before and after."""

    def __init__(self, accelerate, **options):
        self.accelerator = accelerate.Accelerator(cpu=True, **options)
        model, optimizer, scheduler = model_and_optimizer()
        names = list(model.named_parameters())
        self.monitor_from_before = monitor(optimizer, names)
        self.model, self.optimizer, self.scheduler = self.accelerator.prepare(model, optimizer, scheduler)
        self.monitor_from_after = monitor(self.optimizer, names)

    def run(self, batches):
        for features, labels in batches:
            with self.accelerator.accumulate(self.model):
                self.accelerator.backward(LOSS(self.model(features), labels))
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.scheduler.step()
                self.optimizer.zero_grad()


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_equals_a_loop_by_hand(accelerate, precision) -> None:
    model, optimizer, scheduler = model_and_optimizer()
    batches = classification_batches(24)
    watching = monitor(optimizer, model.named_parameters())
    accelerated = Prepared(accelerate, mixed_precision=precision, gradient_accumulation_steps=2)
    accelerated.run(batches)

    def loss_of(batch):
        return LOSS(model(batch.features).float(), batch.labels)

    bf16 = precision == "bf16"
    train(model, optimizer, scheduler, batches, loss_of, accumulate=2, max_norm=1.0, bf16=bf16)
    assert_same(accelerated.optimizer.optimizer, optimizer)
    assert watching.totals()["cancellation"] > 0
    assert accelerated.monitor_from_before.read() == watching.read()
    assert accelerated.monitor_from_after.read() == watching.read()


def test_resumed_equals_never_stopped(accelerate, tmp_path) -> None:
    batches = classification_batches(12)
    through = Prepared(accelerate)
    through.run(batches)
    first = Prepared(accelerate)
    first.run(batches[:5])
    first.accelerator.save_state(str(tmp_path))
    second = Prepared(accelerate)
    second.accelerator.load_state(str(tmp_path))
    second.run(batches[5:])
    assert_same(second.optimizer.optimizer, through.optimizer.optimizer)


def test_an_overflow_is_a_skipped_step_for_accelerate_too(accelerate) -> None:
    """Its schedulers wait for such a step."""
    from accelerate.optimizer import AcceleratedOptimizer

    accelerate.Accelerator(cpu=True)
    p = torch.nn.Parameter(torch.ones(3))
    scaler = torch.amp.GradScaler("cpu")
    optimizer = AcceleratedOptimizer(PsiLogic([p]), scaler=scaler)
    scaler.scale(p.sum() * float("inf")).backward()
    optimizer.step()
    assert optimizer.step_was_skipped
    assert torch.equal(p, torch.ones(3))
