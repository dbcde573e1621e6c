"""What an optimizer is given, how large its state is, and whether memory or time grow over a training."""

import gc
import sys
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
"""Steps of a long training."""
WINDOW = 25
"""Steps of a long training that are compared with as many later ones: what is kept may be freed every few steps."""
SLOWER = 3.0
"""A step may take this many times as long as an early one."""


def state_bytes(trainer: Trainer) -> float:
    """Bytes of an optimizer's state for each weight."""
    params = {id(p) for p in trainer.params}
    state = {id(x): x for x in tensors([dict(trainer.optimizer.state), vars(trainer.optimizer)]) if id(x) not in params}
    return sum(x.numel() * x.element_size() for x in state.values()) / sum(p.numel() for p in trainer.params)


@check("arguments", "note", "")
def arguments(case: Case) -> tuple[Severity, str]:
    """What the constructor gets, and how to change it."""
    spec, needs = case.spec(case.best.lr).optimizer, case.optimizer.needs
    named = "pairs of a name and a parameter" if "named_parameters" in needs else "the parameters"
    first = "the model" if "model" in needs else f"groups of {spec.groups}" if spec.groups else named
    options = ", ".join(f"{key} = {value}" for key, value in sorted(spec.options.items(), key=lambda x: x[0] != "lr"))
    options = shorten(options, 160, placeholder=" ...")
    return "note", f"it gets {first} and {options}; --set {spec.name}.KEY=VALUE sets one"


@check("state", "note", "")
def state(case: Case) -> tuple[Severity, str]:
    """The memory of the optimizer's state."""
    baseline = replace(case_of(BASELINE, OptimizerPlan()), trainings=[ShortTraining(1e-3, 0.0, 0.0)])
    own, other = (state_bytes(each.training(3)) for each in (case, baseline))
    return "note", f"{own:.1f} bytes for each weight; {BASELINE} {other:.1f}"


@check("long training", "warn", "keep running averages in place of everything that was, and free the rest")
def long_training(case: Case) -> tuple[Severity, str]:
    """Neither the memory nor the time of a step grows."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    training = SmallTraining(case, model, lambda: (model(torch.randn(32, 8, generator=generator)) - 1).square().mean())
    seconds, held = [0.0] * LONG, [0] * LONG
    for step in range(LONG):
        seconds[step] = training.step()
        if step >= LONG // 2:
            held[step] = held_bytes()
    early, late = held[LONG // 2 :][:WINDOW], held[-WINDOW:]
    if (grown := min(late) - max(early)) > 0:
        of_a_model = f"in a model of {sum(p.numel() for p in model.parameters())} weights"
        return "warn", f"after {LONG} steps it holds {grown} bytes more than after {LONG // 2 + WINDOW}, {of_a_model}"
    slower = min(seconds[-WINDOW:]) / min(seconds[WINDOW : 2 * WINDOW])  # of steps that nothing else delays
    if slower > SLOWER:
        return "warn", f"the last of {LONG} steps take {slower:.1f} times as long as early ones"
    return "pass", f"over {LONG} steps neither the memory nor the time of a step grows"


def held_bytes() -> int:
    """Bytes of all Python objects and tensors in this process."""
    gc.collect()
    objects = gc.get_objects()
    strided = [x for x in objects if issubclass(type(x), Tensor) and x.layout == torch.strided]
    storages = [x.untyped_storage() for x in strided]
    tensor_bytes: dict[int, int] = {x.data_ptr(): x.nbytes() for x in storages}
    return sum(map(sys.getsizeof, objects)) + sum(tensor_bytes.values())
