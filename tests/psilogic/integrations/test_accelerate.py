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


def prepared(accelerate, **options):
    """An accelerator, and a model, optimizer and scheduler that it prepared, with monitors from before and after."""
    accelerator, (model, optimizer, scheduler) = accelerate.Accelerator(cpu=True, **options), model_and_optimizer()
    monitors = [monitor(optimizer, model.named_parameters())]
    wrapped = accelerator.prepare(model, optimizer, scheduler)
    return accelerator, wrapped, [*monitors, monitor(wrapped[1], model.named_parameters())]


def run(accelerator, model, optimizer, scheduler, batches):
    for x, y in batches:
        with accelerator.accumulate(model):
            accelerator.backward(LOSS(model(x), y))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_equals_a_loop_by_hand(accelerate, precision) -> None:
    model, optimizer, scheduler = model_and_optimizer()
    batches, watching = classification_batches(24), monitor(optimizer, model.named_parameters())
    accelerator, accelerated, monitors = prepared(accelerate, mixed_precision=precision, gradient_accumulation_steps=2)
    run(accelerator, *accelerated, batches)

    def loss_of(batch):
        return LOSS(model(batch[0]).float(), batch[1])

    train(model, optimizer, scheduler, batches, loss_of, accumulate=2, max_norm=1.0, bf16=precision == "bf16")
    assert_same(accelerated[1].optimizer, optimizer)
    assert watching.totals()["cancellation"] > 0
    assert [each.read() for each in monitors] == [watching.read()] * 2


def test_resumed_equals_never_stopped(accelerate, tmp_path) -> None:
    batches = classification_batches(12)
    accelerator, through, _ = prepared(accelerate)
    run(accelerator, *through, batches)
    accelerator, first, _ = prepared(accelerate)
    run(accelerator, *first, batches[:5])
    accelerator.save_state(str(tmp_path))
    accelerator, second, _ = prepared(accelerate)
    accelerator.load_state(str(tmp_path))
    run(accelerator, *second, batches[5:])
    assert_same(second[1].optimizer, through[1].optimizer)


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
