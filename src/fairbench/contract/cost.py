"""Checks of an optimizer's arguments, of the size of its state, and of memory and time over a long training."""

import gc
import sys
from collections.abc import Sequence
from dataclasses import replace
from textwrap import shorten

import torch
from torch import Tensor, nn

from fairbench.common.checks import Severity, check
from fairbench.contract.case import Case, ShortTraining, SmallTraining, case_of, tensors
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.training.trainer import Trainer

BASELINE = "AdamW"
LONG = 200
"""The number of steps of a long training."""
WINDOW = 25
"""The number of early steps that are compared with as many late ones: memory may be freed only every few steps."""
STATE_STEPS = 20
"""The steps after which the state is measured: one of the last gradients, say, is then complete."""
SLOWER = 3.0
"""A late step may take this many times as long as an early one."""


def state_bytes(trainer: Trainer) -> float:
    """The number of bytes of an optimizer's state for each weight."""
    weights = {id(p) for p in trainer.params}
    state = {}
    for tensor in tensors([dict(trainer.optimizer.state), vars(trainer.optimizer)]):
        if id(tensor) not in weights:
            state[id(tensor)] = tensor
    size = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    count = sum(p.numel() for p in trainer.params)
    return size / count


@check("arguments", "note", "")
def arguments(case: Case) -> tuple[Severity, str]:
    """What the constructor gets, and how to change it."""
    spec = case.spec(case.best.lr).optimizer
    options = [f"{name} = {value}" for name, value in spec.options.items() if name != "lr"]
    if "lr" in spec.options:
        options.insert(0, f"lr = {spec.options['lr']}")
    shown = shorten(", ".join(options), 160, placeholder=" ...")
    first = _first_argument(case.optimizer.needs, spec.groups)
    return "note", f"it gets {first} and {shown}; --set {spec.name}.KEY=VALUE sets one"


def _first_argument(needs: Sequence[str], groups: str) -> str:
    """The first argument of the constructor, in words."""
    if "model" in needs:
        return "the model"
    if groups:
        return f"groups of {groups}"
    if "named_parameters" in needs:
        return "pairs of a name and a parameter"
    return "the parameters"


@check("state", "note", "")
def state(case: Case) -> tuple[Severity, str]:
    """The memory of the optimizer's state."""
    training = ShortTraining(lr=1e-3, start=0.0, end=0.0)
    baseline = replace(case_of(BASELINE, OptimizerPlan()), trainings=[training])
    size = state_bytes(case.training(STATE_STEPS))
    baseline_size = state_bytes(baseline.training(STATE_STEPS))
    return "note", f"{size:.1f} bytes for each weight; {BASELINE} {baseline_size:.1f}"


@check("long training", "warn", "keep running averages in place of everything that was, and free the rest")
def long_training(case: Case) -> tuple[Severity, str]:
    """Neither the memory nor the time of a step grows."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))

    def loss() -> Tensor:
        outputs: Tensor = model(torch.randn(32, 8, generator=generator))
        return (outputs - 1).square().mean()

    training = SmallTraining(case, model, loss)
    half = LONG // 2
    seconds = [0.0] * LONG  # both lists have their final size, so that they do not grow during the measurement
    held = [0] * LONG
    for step in range(LONG):
        seconds[step] = training.step()
        if step >= half:
            held[step] = held_bytes()
    grown = min(held[-WINDOW:]) - max(held[half : half + WINDOW])
    if grown > 0:
        weights = sum(p.numel() for p in model.parameters())
        return (
            "warn",
            f"after {LONG} steps it holds {grown} bytes more than after {half + WINDOW}, "
            f"in a model of {weights} weights",
        )
    early = min(seconds[WINDOW : 2 * WINDOW])  # the fastest step, which nothing else delays
    late = min(seconds[-WINDOW:])
    slower = late / early
    if slower > SLOWER:
        return "warn", f"the last of {LONG} steps take {slower:.1f} times as long as early ones"
    return "pass", f"over {LONG} steps neither the memory nor the time of a step grows"


def held_bytes() -> int:
    """The bytes of all Python objects and of the memory of all tensors in this process."""
    gc.collect()
    objects = gc.get_objects()
    strided = [each for each in objects if issubclass(type(each), Tensor) and each.layout == torch.strided]
    storages = [tensor.untyped_storage() for tensor in strided]
    tensor_bytes: dict[int, int] = {storage.data_ptr(): storage.nbytes() for storage in storages}
    object_bytes = sum(map(sys.getsizeof, objects))
    return object_bytes + sum(tensor_bytes.values())
