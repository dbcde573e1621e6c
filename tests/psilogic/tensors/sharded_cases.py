"""The jobs of the processes: steps on shares, and the same steps on whole tensors in the same process."""

from functools import cache, partial
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist
from configurations import trace
from sharded_layouts import SCHEMES, SHAPES, Holder, local
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from trajectories import gradients, parameters, params_of, train, watch

from psilogic import PsiLogic

# With tau_scale=7 the gate, which every detector has open at first, closes after 9 steps, and opens at spikes.
ACTIVE = {"lr": 2.0**-6, "gamma": 3.0, "chaos_warmup": 4, "weight_decay": 0.1, "tau_scale": 7.0}
ROWS = {"agc_clip": 2.0, "grad_centralize": True, "max_grad_norm": 20.0, "maximize": True, "quantum_decay": 1.0}
OPTIONS = {
    "tensor": ACTIVE,
    "group": {**ACTIVE, "chaos_scope": "group"},
    "global": {**ACTIVE, "chaos_scope": "global"},
    "AGC of units": {**ACTIVE, "agc_clip": 0.05},
    "AGC of tensors": {**ACTIVE, "agc_clip": 0.05, "agc_norm": "tensor"},
    "GC": {**ACTIVE, "grad_centralize": True},
    "max_grad_norm": {**ACTIVE, "max_grad_norm": 3.0},
    # Rows of which other processes hold a part are left to foreach, which rounds bfloat16 more often than fused does.
    "AGC and GC, group": {**ACTIVE, "agc_clip": 0.5, "grad_centralize": True, "chaos_scope": "group", "fused": False},
    "everything, tensor": {**ACTIVE, **ROWS, "chaos_signal": "relative", "tau_scale": 2.0, "gamma_T_max": 90},
    "everything, global": {
        **ACTIVE,
        **ROWS,
        "chaos_scope": "global",
        "agc_norm": "tensor",
        "foreach": False,
        "fused": False,
    },
}
STEPS = 15


@cache
def script(shapes, dtype=torch.float64, change=None):
    """Whole gradients: tensor 2 is frozen for 6 steps, tensor 3 misses every third, and step 13 has none at all.

    Even tensors spike in step 12, odd ones in step 6.
    """
    steps = gradients(44 + STEPS, shapes, dtype=dtype, every=14)[-STEPS:]
    steps[12] = [None] * len(shapes)
    if change is not None:
        change(steps)
    return steps


def make(params, options, optimizer_class=PsiLogic):
    """The optimizer over two groups; AdamW, whose collectives are counted, has few of the options."""
    if optimizer_class is not PsiLogic:
        of_adamw = ("lr", "weight_decay", "maximize", "foreach")
        options = {name: value for name, value in options.items() if name in of_adamw}
    half = (len(params) + 1) // 2
    groups = [{"params": list(params[:half])}, {"params": list(params[half:])}]
    return optimizer_class(groups, **options)


class Truth(NamedTuple):
    """The steps on whole tensors."""

    snapshots: list  # after each step
    what_happened: tuple  # as `acted` says it


@cache
def truth(shapes, option, dtype=torch.float64, change=None):
    """The same steps on whole tensors."""
    params = parameters(shapes, dtype)
    optimizer = make(params, OPTIONS[option])
    seen = watch(optimizer)
    snapshots = trace(optimizer, params, script(shapes, dtype, change))
    return Truth(snapshots, acted(seen))


class Run:
    """A scheme's shares and their optimizer."""

    def __init__(self, name, option, dtype=torch.float64, optimizer_class=PsiLogic):
        self.name = name
        self.scheme = SCHEMES[name]
        self.shares = self.scheme.shares(parameters(self.scheme.shapes, dtype))
        params = [share.param for share in self.shares]
        self.optimizer = make(params, OPTIONS[option], optimizer_class)

    def step(self, grads):
        for share, grad in zip(self.shares, grads, strict=True):
            share.set_gradient(grad)
        self.optimizer.step()

    def check(self, snapshot, where, **tolerance):
        """Parameters and state are this process's part of those of whole tensors."""
        for i, (share, whole) in enumerate(zip(self.shares, snapshot, strict=True)):
            at = f"{self.name}, {where}, tensor {i} of shape {tuple(whole.param.shape)}"
            same(share.param, share.of(whole.param), at, **tolerance)
            state = self.optimizer.state.get(share.param, {})
            assert state.keys() == whole.state.keys(), f"{at}: state {sorted(state)} instead of {sorted(whole.state)}"
            for key, value in state.items():
                expected = whole.state[key]
                if key in ("exp_avg", "exp_avg_sq", "compensation"):
                    expected = share.of(expected)
                    assert is_placed_as(value, share.param), f"{at}, {key} is placed otherwise"
                same(value, expected, f"{at}, {key}", **tolerance)


def is_placed_as(value, param):
    """Whether a tensor of the state is placed as its parameter, where that is a DTensor."""
    if not isinstance(param, DTensor):
        return True
    return value.device_mesh == param.device_mesh and tuple(value.placements) == tuple(param.placements)


def same(actual, expected, where, rtol=1e-10, atol=1e-10):
    """Shape, dtype and values of this process's part are the expected ones."""
    mine = local(actual)
    how = {"rtol": rtol, "atol": atol, "equal_nan": True}
    alike = mine.shape == expected.shape and mine.dtype == expected.dtype
    if alike and torch.allclose(mine, expected, **how):
        return  # assert_close takes ten times as long, and shows where
    torch.testing.assert_close(mine, expected, msg=lambda message: f"{where}: {message}", **how)
    raise AssertionError(where)


def acted(seen):
    """Whether active cancellation took something away in some step, and whether the gate was ever closed after it."""
    fired = False
    rested = False
    for _, decision in seen:
        closed = ~decision.gate & (decision.warmup > 0)
        fired |= bool((decision.cancellation > 0).any())
        rested |= bool(closed.any())
    return fired, rested


def follow(name, option, dtype=torch.float64, change=None, **tolerance):
    """Every step of a scheme; raises at the first one after which something differs, of every third that is compared.

    `change` changes the script in place. Returns whether cancellation acted, and whether the gate closed after the
    warm-up.
    """
    run = Run(name, option, dtype)
    expected = truth(run.scheme.shapes, option, dtype, change)
    steps = script(run.scheme.shapes, dtype, change)
    for t, (grads, snapshot) in enumerate(zip(steps, expected.snapshots, strict=True), 1):
        run.step(grads)
        if t % 3 == 0:  # a difference stays: in the parameters, and in the averages
            run.check(snapshot, f"{option}, step {t}", **tolerance)
    for share, grad in zip(run.shares, steps[-1], strict=True):
        if grad is not None and share.param.grad is not None and share.placements is None:
            assert torch.equal(local(share.param.grad), share.of(grad)), "the step changed p.grad"
    return expected.what_happened


def faults(steps):
    """One element that is NaN, one that is infinite, and a gradient with an infinite norm."""
    gradient_of_shape(steps[7], (3, 2))[2, 0] = float("inf")
    gradient_of_shape(steps[9], (5, 4))[0, 3] = float("nan")
    gradient_of_shape(steps[10], (1, 7)).mul_(1e200)


def gradient_of_shape(grads, shape):
    """The first gradient with this shape."""
    return next(g for g in grads if g is not None and g.shape == shape)


def overflow(name):
    """GradScaler finds an overflow on one process alone; whether parameters and state are as before."""
    run = Run(name, "everything, global")
    steps = script(run.scheme.shapes)
    for grads in steps[:3]:
        run.step(grads)

    def held():
        """Copies of this process's part of all parameters and their state."""
        copies = []
        for share in run.shares:
            state = run.optimizer.state.get(share.param, {})
            copies += [local(tensor).clone() for tensor in (share.param, *state.values())]
        return copies

    before = held()
    run.optimizer.found_inf = torch.tensor(float(dist.get_rank() == 0))
    run.step(steps[3])
    return all(torch.equal(a, b) for a, b in zip(before, held(), strict=True))


# Collectives.


def collectives():
    """How many collectives each process group has done so far.

    Gloo numbers them itself, so that none is missed, regardless of how it was called.
    """
    numbers = {}
    for group in dist.distributed_c10d._world.pg_map:
        backend = group._get_backend(torch.device("cpu"))
        numbers[group.group_name] = backend._get_sequence_number_for_group()
    return numbers


def counted(function):
    """The collectives that a call does, by group."""
    before = collectives()
    function()
    done = {}
    for name, number in collectives().items():
        if number != before.get(name, 0):
            done[name] = number - before.get(name, 0)
    return done


def count(name, option, optimizer_class=PsiLogic):
    """The collectives of three steps, the second of them without any gradient."""
    run = Run(name, option, optimizer_class=optimizer_class)
    counts = []
    for grads in script(run.scheme.shapes)[11:14]:
        by_group = counted(partial(run.step, grads))
        counts.append(sum(by_group.values()))
    return counts


# Optimizers that have nothing to do with the process group.


def alone():
    """Only the first process steps, with a model that is not sharded: nothing may wait for the other processes."""
    if dist.get_rank() > 0:
        return {}
    params = parameters()
    optimizer = make(params, OPTIONS["everything, global"])

    return counted(partial(train, optimizer, params, gradients(3)))


def flat_partitions(keeps_shapes):
    """Other tensors in the groups, as DeepSpeed's ZeRO and apex put them there; returns the error's text.

    ZeRO replaces the parameters of a group by its rank's part of all of them, apex each by a copy in float32.
    """
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).to(torch.bfloat16)
    optimizer = PsiLogic([{"params": layer.parameters()} for layer in module])
    for group in optimizer.param_groups:
        masters = [p.detach().float() for p in group["params"]]
        if not keeps_shapes:
            flat = torch.cat([master.flatten() for master in masters])
            padded = torch.nn.functional.pad(flat, (0, len(flat) % 2))
            masters = [padded.chunk(2)[dist.get_rank()].clone()]
        for master in masters:
            master.requires_grad_()
            master.grad = torch.ones_like(master)
        group["params"] = masters
    before = [p.detach().clone() for p in params_of(optimizer)]
    try:
        optimizer.step()
    except RuntimeError as error:
        assert not optimizer.state
        assert all(map(torch.equal, before, params_of(optimizer)))
        return str(error)
    return "no error"


def with_zero():
    """Steps with ZeRO-1, which gives each process whole tensors, equal those without it, also after it has resumed."""
    options = {**OPTIONS["everything, tensor"], "max_grad_norm": None}
    wholes = parameters(SHAPES)
    plain = PsiLogic(wholes, **options)
    seen = watch(plain)
    params = parameters(SHAPES)
    optimizer = ZeroRedundancyOptimizer(params, PsiLogic, **options)
    for t, grads in enumerate(script(SHAPES)):
        if t == STEPS // 2:
            saved = consolidated(optimizer)
            optimizer = ZeroRedundancyOptimizer(params, PsiLogic, **options)
            optimizer.load_state_dict(saved)
        train(plain, wholes, [grads])
        train(optimizer, params, [grads])
        for i, (p, whole) in enumerate(zip(params, wholes, strict=True)):
            same(p, whole, f"step {t}, tensor {i}", rtol=0, atol=0)
    return acted(seen)


def consolidated(optimizer):
    """The state dict of a ZeroRedundancyOptimizer, which one process collects, for all of them."""
    optimizer.consolidate_state_dict(to=0)
    saved = [optimizer.state_dict() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(saved)
    return saved[0]


def made_over_hidden_tensors(how):
    """An optimizer over FSDP1's parameters, as a group that is added later, or made by ZeRO-1; returns the error."""
    if how in ("max_grad_norm", "group"):
        params = parameters(SHAPES[:3])
        return error_of(ZeroRedundancyOptimizer, params, optimizer_class=PsiLogic, **OPTIONS[how])
    model = FullyShardedDataParallel(
        Holder(parameters(SHAPES)),
        device_id=torch.device("cpu"),
        use_orig_params=how != "flat",
        device_mesh=init_device_mesh("cpu", (2,)),
    )
    if how != "added":
        return error_of(PsiLogic, model.parameters())
    optimizer = PsiLogic(parameters(SHAPES))
    message = error_of(optimizer.add_param_group, {"params": model.parameters()})
    assert len(optimizer.param_groups) == 1
    return message


def error_of(function, *args, **options):
    with pytest.raises(RuntimeError) as error:
        function(*args, **options)
    return str(error.value)


def without_gradients(missing, scope):
    """The gn of each tensor here in two steps; `missing` has the tensors whose gradient each process lacks."""
    missing_here = missing[dist.get_rank()]
    mesh = init_device_mesh("cpu", (2,))
    wholes = [torch.ones(4, 3), torch.ones(6), torch.ones(2, 2)]
    params = [nn.Parameter(distribute_tensor(x, mesh, [Shard(0)])) for x in wholes]
    optimizer = PsiLogic(params, chaos_scope=scope, max_grad_norm=1e9)
    seen = watch(optimizer)
    for _ in range(2):
        for i, p in enumerate(params):
            grad = torch.full_like(p, float(10**i))
            p.grad = None if i in missing_here else grad
        optimizer.step()
    index_of = {id(p): i for i, p in enumerate(params)}
    found = {}
    for updated, decision in seen:
        for p, gn in zip(updated, decision.gn.tolist(), strict=True):
            found.setdefault(index_of[id(p)], []).append(round(gn, 4))
    return found
