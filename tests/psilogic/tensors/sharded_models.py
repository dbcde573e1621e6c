"""The jobs of the processes with a real model: training under a wrapper, checkpoints, the monitor."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sharded_cases import OPTIONS, acted, make, same
from sharded_layouts import fsdp2, local, tensor_parallel, tp_and_fsdp2
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from trajectories import SPIKE, watch

from psilogic import monitor
from psilogic.integrations.dcp import LoadPlanner

STEPS = 14
SPIKES = (11, 13)
BATCH = 8


class Net(nn.Module):
    """A convolution, two layers that tensor parallelism can cut, another parameter, one row at the end."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.kernel = nn.Conv2d(3, 2, 2, dtype=torch.float64)
        self.up = nn.Linear(8, 4, dtype=torch.float64)
        self.down = nn.Linear(4, 3, dtype=torch.float64)
        self.scale = nn.Parameter(torch.rand(3, dtype=torch.float64))
        self.last = nn.Linear(3, 1, dtype=torch.float64)

    def forward(self, x):
        x = torch.tanh(self.kernel(x).flatten(1))
        x = torch.tanh(self.up(x))
        x = torch.tanh(self.down(x))
        return self.last(self.scale * x)


def _tp(model):
    return tensor_parallel(init_device_mesh("cpu", (2,)))(model)


@dataclass(frozen=True)
class Wrapper:
    """A wrapper of modules over a number of processes."""

    world: int
    wrap: Callable[[nn.Module], nn.Module]
    batches: int  # parts of the batch; processes that follow each other share one


WRAPPERS = {
    "fully_shard on 1": Wrapper(1, fsdp2(1), batches=1),
    "fully_shard on 2": Wrapper(2, fsdp2(2), batches=2),
    "fully_shard on 4": Wrapper(4, fsdp2(4), batches=4),
    "HSDP": Wrapper(4, fsdp2(2, 2), batches=4),
    "tensor parallel": Wrapper(2, _tp, batches=1),
    "tensor parallel and fully_shard": Wrapper(4, tp_and_fsdp2, batches=2),
    "DDP": Wrapper(2, DistributedDataParallel, batches=2),
}


def batch(t, wrapper=None):
    """The inputs of step t, or this process's part of them where a wrapper spreads the batch."""
    generator = torch.Generator().manual_seed(t)
    x = torch.randn(BATCH, 3, 3, 3, dtype=torch.float64, generator=generator)
    if wrapper is None:
        return x
    part = dist.get_rank() * wrapper.batches // wrapper.world
    return x.chunk(wrapper.batches)[part]


def train(model, optimizer, t, wrapper=None):
    """Step t, on this process's part of the batch where a wrapper spreads it."""
    optimizer.zero_grad()
    loss = model(batch(t, wrapper)).square().mean()
    if t in SPIKES:
        loss = loss * SPIKE
    loss.backward()
    optimizer.step()


def portions(wrap):
    """Which elements this process has of each parameter: the values of a model that is filled with positions."""
    numbered = Net()
    with torch.no_grad():
        for p in numbered.parameters():
            p.copy_(torch.arange(p.numel(), dtype=p.dtype).view_as(p))
    names = [name for name, _ in numbered.named_parameters()]
    held = [local(p).long() for p in wrap(numbered).parameters()]
    return dict(zip(names, held, strict=True))


def begin(name, option, at):
    """A wrapped model and its optimizer after `at` steps; without a name neither is wrapped."""
    model = WRAPPERS[name].wrap(Net()) if name else Net()
    optimizer = make(list(model.parameters()), OPTIONS[option])
    steps(name, model, optimizer, 1, at)
    return model, optimizer


def fresh(name, option):
    """The same with weights that differ from those that will be loaded."""
    model, optimizer = begin(name, option, 0)
    with torch.no_grad():
        for p in model.parameters():
            local(p).fill_(7.0)
    return model, optimizer


def steps(name, model, optimizer, first, last):
    wrapper = WRAPPERS.get(name)
    for t in range(first, last + 1):
        train(model, optimizer, t, wrapper)


@cache
def undisturbed(option):
    """The model alone with its optimizer, after a run without an interruption."""
    whole, theirs = begin("", option, 0)
    seen = watch(theirs)
    steps("", whole, theirs, 1, STEPS)
    assert all(acted(seen)), "cancellation must act, and the gate must close"
    return whole, theirs


def finish(name, option, model, optimizer, at, alone=None):
    """Train to the end: parameters and state are then this process's part of those of the model alone."""
    steps(name, model, optimizer, at + 1, STEPS)
    whole, theirs = alone or undisturbed(option)
    indices = portions(WRAPPERS[name].wrap if name else unwrapped)
    for p, (key, q) in zip(model.parameters(), whole.named_parameters(), strict=True):
        where = f"{name or 'one process'}, {option}, {key}"
        index = indices[key]
        same(p, q.detach().flatten()[index], where)
        for entry, value in optimizer.state[p].items():
            expected = theirs.state[q][entry]
            if entry.startswith("exp_avg"):
                expected = expected.flatten()[index]
            same(value, expected, f"{where}, {entry}")


def unwrapped(module):
    return module


# Checkpoints.


def save(name, option, path, at, **how):
    """Train until step `at`, write a distributed checkpoint or the gathered state as a plain file, and train on."""
    model, optimizer = begin(name, option, at)
    weights, state = get_state_dict(model, optimizer, options=StateDictOptions(**how))
    if "full_state_dict" not in how:
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=path)
    elif dist.get_rank() == 0:
        torch.save((weights, state), path)
    finish(name, option, model, optimizer, at)  # saving changes nothing


def resume(name, option, path, at, **how):
    """Load that checkpoint or file in a new model and train on."""
    options = StateDictOptions(**how)
    model, optimizer = fresh(name, option)
    if "full_state_dict" in how:
        weights, state = torch.load(path, weights_only=False)
    else:
        weights, state = get_state_dict(model, optimizer, options=options)
        dcp.load({"model": weights, "optimizer": state}, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state, options=options)
    finish(name, option, model, optimizer, at)


def take_over(name, option, path, at, **how):
    """A distributed checkpoint of AdamW, into PsiLogic: as with AdamW's own state dict in one process."""
    model = WRAPPERS[name].wrap(Net())
    theirs = make(list(model.parameters()), {"lr": 0.01}, torch.optim.AdamW)
    steps(name, model, theirs, 1, at)
    whole = Net()
    alone = make(list(whole.parameters()), {"lr": 0.01}, torch.optim.AdamW)
    steps("", whole, alone, 1, at)
    mine = make(list(whole.parameters()), OPTIONS[option])
    mine.load_state_dict(alone.state_dict())
    steps("", whole, mine, at + 1, STEPS)
    options = StateDictOptions(**how)
    weights, state = get_state_dict(model, theirs, options=options)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=path)
    model, optimizer = fresh(name, option)
    weights, state = get_state_dict(model, optimizer, options=options)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=path, planner=LoadPlanner())
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state, options=options)
    finish(name, option, model, optimizer, at, (whole, mine))


class Watched(NamedTuple):
    """What a monitor shows after a run."""

    rows: list
    totals: dict
    spikes: list


def watched(name, option):
    """The monitor's numbers under a wrapper, and in one process without any."""
    return watch_run(name, option), watch_run("", option)


def watch_run(name, option):
    model, optimizer = begin(name, option, 0)
    keys = [key for key, _ in Net().named_parameters()]
    watching = monitor(optimizer, zip(keys, model.parameters(), strict=True))
    steps(name, model, optimizer, 1, STEPS)
    return Watched(watching.read(), watching.totals(), watching.spikes())
