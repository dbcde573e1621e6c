"""The jobs of the processes with a real model: training under a wrapper, checkpoints, the monitor."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sharded_cases import OPTIONS, acted, make, same
from sharded_layouts import fsdp1, fsdp2, local, tensor_parallel, tp_and_fsdp2
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    StateDictType,
)
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from trajectories import SPIKE, watch

from psilogic import monitor

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
        features = torch.tanh(self.kernel(x).flatten(1))
        return self.last(self.scale * torch.tanh(self.down(torch.tanh(self.up(features)))))


def _tp(model):
    return tensor_parallel(init_device_mesh("cpu", (2,)))(model)


@dataclass(frozen=True)
class Wrapper:
    """A wrapper, and over how many processes it spreads the batch.

    Attributes:
        world: number of processes.
        wrap: makes the wrapped module of a module.
        batches: parts of the batch; processes that follow each other share one.
    """

    world: int
    wrap: Callable[[nn.Module], nn.Module]
    batches: int


WRAPPERS = {
    "fully_shard on 1": Wrapper(1, fsdp2(1), 1),
    "fully_shard on 2": Wrapper(2, fsdp2(2), 2),
    "fully_shard on 4": Wrapper(4, fsdp2(4), 4),
    "HSDP": Wrapper(4, fsdp2(2, 2), 4),
    "tensor parallel": Wrapper(2, _tp, 1),
    "tensor parallel and fully_shard": Wrapper(4, tp_and_fsdp2, 2),
    "FSDP1 on 2": Wrapper(2, fsdp1(2), 2),
    "FSDP1 on 4": Wrapper(4, fsdp1(4, nested=True), 4),
    "FSDP1, hybrid": Wrapper(4, fsdp1(2, 2), 4),
    "DDP": Wrapper(2, DistributedDataParallel, 2),
    "ZeRO": Wrapper(2, DistributedDataParallel, 2),
}


def batch(t, parts=1, part=0):
    """The inputs of step t, or one of their equal parts, and what the loss is multiplied by."""
    generator = torch.Generator().manual_seed(t)
    x = torch.randn(BATCH, 3, 3, 3, dtype=torch.float64, generator=generator)
    return x.chunk(parts)[part], SPIKE if t in SPIKES else 1.0


def train(model, optimizer, t, wrapper=None):
    """Step t, on this process's part of the batch where a wrapper spreads it."""
    parts, part = (wrapper.batches, dist.get_rank() * wrapper.batches // wrapper.world) if wrapper else (1, 0)
    x, factor = batch(t, parts, part)
    optimizer.zero_grad()
    (model(x).square().mean() * factor).backward()
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


def learn(name, option):
    """Parameters of a model under a wrapper and of the same model alone, after every step."""
    wrapper = WRAPPERS[name]
    indices = portions(wrapper.wrap)
    whole, wrapped = Net(), wrapper.wrap(Net())
    theirs = make([*whole.parameters()], OPTIONS[option])
    mine = make([*wrapped.parameters()], OPTIONS[option], zero=name == "ZeRO")
    seen = watch(theirs)
    for t in range(1, STEPS + 1):
        train(whole, theirs, t)
        train(wrapped, mine, t, wrapper)
        check(name, f"{option}, step {t}", (wrapped, mine), (whole, theirs), indices)
    return acted(seen)


def check(name, where, sharded, alone, indices):
    """Parameters and state of the sharded model's optimizer are this process's part of the other one's."""
    (wrapped, mine), (whole, theirs) = sharded, alone
    states = getattr(mine, "optim", mine).state
    for p, (key, q) in zip(wrapped.parameters(), whole.named_parameters(), strict=True):
        at, index = f"{name}, {where}, {key}", indices[key]
        same(p, q.detach().flatten()[index], at)
        if p not in states and (isinstance(mine, ZeroRedundancyOptimizer) or not index.numel()):
            continue
        for entry, value in states[p].items():
            expected = theirs.state[q][entry]
            elementwise = entry.startswith("exp_avg")
            same(value, expected.flatten()[index] if elementwise else expected, f"{at}, {entry}")


# Checkpoints.


def start(name, option):
    """A wrapped model with its optimizer; the seed of the weights is that of every process."""
    model = WRAPPERS[name].wrap(Net()) if name else Net()
    return model, make([*model.parameters()], OPTIONS[option], zero=name == "ZeRO")


def steps(name, model, optimizer, first, last):
    for t in range(first, last + 1):
        train(model, optimizer, t, WRAPPERS[name] if name else None)


def check_end(name, option, model, optimizer):
    """After a run with an interruption all is as it is after one without, in one process."""
    indices = portions(WRAPPERS[name].wrap if name else lambda module: module)
    check(name or "one process", f"{option}, resumed", (model, optimizer), undisturbed(option), indices)


@cache
def undisturbed(option):
    """The model alone with its optimizer, after a run without an interruption."""
    whole, theirs = start("", option)
    steps("", whole, theirs, 1, STEPS)
    return whole, theirs


def disturb(model):
    """Other weights than those that will be loaded."""
    with torch.no_grad():
        for p in model.parameters():
            local(p).fill_(7.0)


def save(name, option, path, at, **state_options):
    """Train until step `at` and write a distributed checkpoint."""
    model, optimizer = start(name, option)
    steps(name, model, optimizer, 1, at)
    weights, state = get_state_dict(model, optimizer, options=StateDictOptions(**state_options))
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=path)
    steps(name, model, optimizer, at + 1, STEPS)  # saving changes nothing
    check_end(name, option, model, optimizer)


def resume(name, option, path, at, **state_options):
    """Load a distributed checkpoint in a new model and train on."""
    options = StateDictOptions(**state_options)
    model, optimizer = start(name, option)
    disturb(model)
    weights, state = get_state_dict(model, optimizer, options=options)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state, options=options)
    steps(name, model, optimizer, at + 1, STEPS)
    check_end(name, option, model, optimizer)


def full_state(name, option, path, at):
    """Write the whole state, gathered, as a plain file."""
    model, optimizer = start(name, option)
    steps(name, model, optimizer, 1, at)
    gathered = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        torch.save(gathered, path)


def resume_full_state(name, option, path, at):
    """Load that file, under a wrapper or in one process without any."""
    options = StateDictOptions(full_state_dict=True)
    model, optimizer = start(name, option)
    disturb(model)
    weights, state = torch.load(path, weights_only=False)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state, options=options)
    steps(name, model, optimizer, at + 1, STEPS)
    check_end(name, option, model, optimizer)


def fsdp1_round_trip(name, option, kind, at):
    """FSDP1's own state dict of the optimizer, into a new model and optimizer."""
    model, optimizer = start(name, option)
    steps(name, model, optimizer, 1, at)
    kind = StateDictType[kind]
    # With offloading of a state that is on the CPU, torch 2.13 returns one buffer for exp_avg and exp_avg_sq.
    here = [FullStateDictConfig(), FullOptimStateDictConfig(offload_to_cpu=False)] if "FULL" in kind.name else []
    with FullyShardedDataParallel.state_dict_type(model, kind, *here):
        weights, state = model.state_dict(), FullyShardedDataParallel.optim_state_dict(model, optimizer)
    fresh, optimizer = start(name, option)
    disturb(fresh)
    with FullyShardedDataParallel.state_dict_type(fresh, kind, *here):
        fresh.load_state_dict(weights)
        optimizer.load_state_dict(FullyShardedDataParallel.optim_state_dict_to_load(fresh, optimizer, state))
    steps(name, fresh, optimizer, at + 1, STEPS)
    check_end(name, option, fresh, optimizer)


def zero_round_trip(option, at):
    """ZeRO's consolidated state, into a new model and optimizer."""
    model, optimizer = start("ZeRO", option)
    steps("ZeRO", model, optimizer, 1, at)
    optimizer.consolidate_state_dict(to=0)
    content = [optimizer.state_dict() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(content, 0)
    fresh, optimizer = start("ZeRO", option)
    fresh.load_state_dict(model.state_dict())
    optimizer.load_state_dict(content[0])
    steps("ZeRO", fresh, optimizer, at + 1, STEPS)
    check_end("ZeRO", option, fresh, optimizer)


# The monitor.


def watched(name, option):
    """What the monitor reads under a wrapper, and in one process without any."""
    found = []
    for which in (name, ""):
        model, optimizer = start(which, option)
        names = [(key, p) for (key, _), p in zip(Net().named_parameters(), model.parameters(), strict=True)]
        watching = monitor(optimizer, names)
        steps(which, model, optimizer, 1, STEPS)
        found.append((watching.read(), watching.totals(), watching.spikes()))
    return found
