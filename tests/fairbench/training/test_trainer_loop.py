"""The loop never waits for a GPU between log points; no metric depends on the batch size of the evaluation."""

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from tiny import study_of
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairbench.arenas.registry import ARENAS
from fairbench.data.batches import Batches
from fairbench.study.planned_trial import trial_spec
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.evaluation import evaluate
from fairbench.training.optimizer_needs import OptimizerNeeds
from fairbench.training.trainer import Trainer

pytestmark = pytest.mark.xdist_group("trainer_loop")


META = torch.device("meta")
WAITS = ("_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero")


SMALL_MODELS = {"resnet": {"width": 2}, "ddpm": {"channels": [4, 4]}}
"""Models of the suite `mini` that are smaller here: most of the time is their first step."""


def spec_of(arena, optimizer="AdamW", **data):
    model = {f"arenas.{arena}.model.{name}": value for name, value in SMALL_MODELS.get(arena, {}).items()}
    settings = {f"arenas.{arena}.data.{name}": value for name, value in data.items()}
    overrides = Overrides(arenas=[arena], optimizers=[optimizer], settings={**model, **settings}, reference=optimizer)
    suite = load_suite("mini", overrides)
    return trial_spec(study_of(suite), arena, optimizer, "sweep", 1e-3, seed=0)


def tensors_in(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Transfers(TorchDispatchMode):
    """Counts operations that make the host wait, or copy between host and device, while a GPU would be idle."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        result = function(*args, **(kwargs or {}))
        inputs = tensors_in((args, kwargs))
        given = {tensor.device.type for tensor in inputs if tensor.ndim}  # a scalar of the host is passed with the call
        made = {tensor.device.type for tensor in tensors_in(result)}
        if name in WAITS and any(tensor.device == META for tensor in inputs):
            self.counts[name] += 1
        if {"cpu", "meta"} <= given | made:
            self.counts[f"{name} between {sorted(given)} and {sorted(made)}"] += 1
        return result


class Generator(torch.Generator):
    """A generator of the host also for the meta device, which has none and accepts it."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls)


def to_another_device(training):
    """Move a training to the meta device, which has shapes but no values: the host cannot wait for one."""
    training.model.to("meta")
    training.params = list(training.model.parameters())
    splits = {name: split.to(META) for name, split in training.data.splits.items()}
    training.data = replace(training.data, splits=splits)
    plan = training.plan
    with patch.object(torch, "Generator", Generator):
        training.batches = Batches(training.data, training.spec.arena.batch_size, plan.steps, training.spec.seed, META)
    training.clipped = training.clipped.to(META)


@pytest.mark.parametrize("arena", ARENAS)
def test_a_training_step_never_waits(arena):
    augmented = {} if arena == "gpt" else {"crop_padding": 1, "flip": True}
    training = Trainer(spec_of(arena, **augmented), DeviceSlot())
    to_another_device(training)
    training.optimizer = torch.optim.AdamW(training.params, foreach=True)
    training.needs = OptimizerNeeds(training.optimizer, (), training.plan)
    training.train_one_step()  # starts the state
    with Transfers() as transfers:
        training.train_one_step()
    assert dict(transfers.counts) == {}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU; there, make gpu-test runs it")
@pytest.mark.parametrize("optimizer", ["AdamW", "PsiLogic"])
@pytest.mark.parametrize("arena", ARENAS)
def test_a_training_step_never_waits_for_a_gpu(arena, optimizer):
    training = Trainer(spec_of(arena, optimizer), DeviceSlot("cuda:0"))
    for _ in range(3):  # compiles, and starts the state
        training.train_one_step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        training.train_one_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("arena", ARENAS)
def test_evaluation_does_not_depend_on_the_batch_size(arena):
    training = Trainer(spec_of(arena, evaluated=300), DeviceSlot())  # more than CHUNK
    few, largest = evaluated(training, batch_size=7)
    assert largest == 7
    many, largest = evaluated(training, batch_size=256)
    assert largest == 256
    assert few == pytest.approx(many, rel=1e-6)


def evaluated(training, batch_size):
    """The metrics on the validation split, and the size of the largest batch that the model got."""
    sizes = []

    def see(model, args, kwargs, output):
        first = tree_leaves((args, kwargs))[0]
        sizes.append(len(first))

    hook = training.model.register_forward_hook(see, with_kwargs=True)
    metrics = evaluate(training.arena, training.model, training.data, "val", batch_size)
    hook.remove()
    return metrics, max(sizes)


def test_every_chunk_of_an_evaluation_has_different_noise():
    training = Trainer(spec_of("ddpm", evaluated=300), DeviceSlot())
    noises = []
    training.model.register_forward_hook(lambda model, args, out: noises.append(args[1]))
    evaluate(training.arena, training.model, training.data, "val", 256)
    assert [len(steps) for steps in noises] == [256, 44]
    assert not torch.equal(noises[0][:44], noises[1])
