"""Random trainings: hyperparameters, parameters and gradients drawn from a seed."""

import random
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SMALL = [(), (0,), (2, 0), (1,), (3,), (17,), (4, 3), (5, 1), (1, 9), (7, 33), (3, 2, 5), (2, 3, 3, 3), (4, 2, 1, 5)]
LONG = [(50_000, 1), (1, 50_000), (40_001,), (3, 20_001), (300, 130), (16, 8, 9, 5)]
HUGE = [(1_100_003,), (2, 600_001), (1500, 700)]  # beyond the parts that norms are summed in, and beyond fused blocks
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64]
HALVES = {torch.bfloat16, torch.float16}
FLAGS = [{"foreach": None}, {"foreach": True}, {"foreach": False}]


@dataclass(frozen=True)
class Trial:
    """All that a seed determines."""

    seed: int
    compiled: bool  # with the package's compiled kernels, or an installation without them
    threads: int
    groups: list  # hyperparameters of each parameter group
    common: dict  # those that are the same in all groups
    members: list  # the group of each parameter
    initial: list  # the parameters
    shared: list  # for each parameter the earlier one with the same memory, or None
    script: list  # the gradients of each step, None for one that is absent
    scaler: dict  # `grad_scale` and `found_inf`, as GradScaler leaves them to the step, or nothing
    tiny: bool  # every tensor is so small that the reference in Python is fast
    finite: bool  # no gradient is NaN or infinite

    def __str__(self):
        tensors = [
            f"{tuple(x.shape)} {x.dtype} strides {x.stride()} group {group}{f' in {i}' if i is not None else ''}"
            for x, group, i in zip(self.initial, self.members, self.shared, strict=True)
        ]
        installed = f"{'with' if self.compiled else 'without'} kernels"
        steps = f"{len(self.script)} steps, {self.threads} threads"
        head = f"{installed}, {steps}, {self.common}, {self.scaler}"
        return "\n    ".join([head, *map(str, self.groups), *tensors])

    @property
    def dtypes(self):
        return {x.dtype for x in self.initial}

    @property
    def options(self):
        """The complete hyperparameters of each group."""
        return [{**self.common, **group} for group in self.groups]


def placed(values: Tensor, strides, offset: int) -> Tensor:
    """A copy with these strides at an offset, in elements, from the start of its memory."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True))
    memory = torch.zeros(offset + max(extent, 0) + 8, dtype=values.dtype)
    return memory.as_strided(values.shape, strides, offset).copy_(values.detach())


def moved(x: Tensor, offset: int) -> Tensor:
    """The same values with the same strides in other memory."""
    return placed(x, x.stride(), offset)


def model(params: list, shared: list) -> list:
    """The parameters of a module that has these tensors, some of them in the memory of an earlier one."""
    module = nn.ParameterList()
    for x, i in zip(params, shared, strict=True):
        module.append(nn.Parameter(x if i is None else module[i].detach()))
    return list(module)


def draw(seed: int, small: bool = False) -> Trial:
    """The trial of a seed, optionally without long tensors."""
    r, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    compiled = r.random() < 0.7
    kinds = r.choices([*([x] for x in DTYPES), DTYPES], [35, 20, 12, 8, 7, 18])[0]
    sizes = SMALL if small else r.choices([SMALL, [*SMALL, *LONG], [*LONG, *HUGE]], [80, 18, 2])[0]
    shapes = [r.choice(sizes) for _ in range(1 if sizes[-1] is HUGE[-1] else r.randint(1, 7))]
    common, usual = {"max_grad_norm": r.choice([None, None, 10 ** r.uniform(-1, 2)])}, _flags(r)
    groups = [_group(r) | (usual if r.random() < 0.7 else _flags(r)) for _ in range(r.randint(1, 3))]
    if torch.float16 in kinds:
        groups = [{**group, "eps": 1e-3} for group in groups]  # not 0 in float16
    initial, shared = [], []
    for shape in shapes:
        x = _normal(shape, r.choice(kinds), generator, r.choice([1, 1, 1, 1e-2, 1e-5]))
        same = [i for i, y in enumerate(initial) if y.shape == x.shape and y.dtype == x.dtype and shared[i] is None]
        shared.append(r.choice(same) if same and r.random() < 0.1 else None)
        initial.append(placed(x, _strides(r, x.shape), r.randrange(17)) if shared[-1] is None else initial[shared[-1]])
    odd = r.random() < 0.12
    script = [[_gradient(r, generator, x, odd) for x in initial] for _ in range(r.randint(3, 14))]
    scaler = {}
    if r.random() < 0.2:
        scaler = {"found_inf": torch.zeros(()), "grad_scale": r.choice([torch.tensor(2.0**10), None])}
    compensated = any(group.get("bf16_update", "nearest") != "nearest" for group in groups)
    everything = [x for xs in (initial, *script) for x in xs if x is not None]
    if compensated or not all(x.is_contiguous() and x.dtype in DTYPES[:3] for x in everything):
        groups = [{**group, "fused": None} for group in groups]  # fused=True is refused if no execution supports it
    members = [r.randrange(len(groups)) for _ in initial]
    used = sorted(set(members))
    threads = 1 if small else r.randint(1, 3)
    groups, members = [groups[i] for i in used], [used.index(i) for i in members]
    finite = all(g is None or bool(g.isfinite().all()) for grads in script for g in grads)
    drawn = threads, groups, common, members, initial, shared, script, scaler
    return Trial(seed, compiled, *drawn, tiny=sizes is SMALL, finite=finite)


def _normal(shape, dtype, generator: torch.Generator, scale: float) -> Tensor:
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return (torch.randn(shape, generator=generator, dtype=wide) * scale).to(dtype)


def _flags(r: random.Random) -> dict:
    """How a group is executed."""
    flags = r.choices(FLAGS, [70, 15, 15])[0]
    fused = r.choice([None, None, True]) if flags["foreach"] is None else None
    return {**flags, "fused": fused, "capturable": r.random() < 0.15}


def _group(r: random.Random) -> dict:
    """Hyperparameters over their whole range; one group in five has AdamW's only."""
    lr = r.choice([1e-3, 0.01, 0.1, 10 ** r.uniform(-4, 0)])
    group = {
        "lr": torch.tensor(lr) if r.random() < 0.15 else lr,
        "betas": r.choice([(0.9, 0.999), (0.9, 0.999), (0.0, 0.9), (0.0, 0.0), (0.5, 0.5), (0.3, 0.99), (0.9, 0.0)]),
        "eps": r.choice([1e-8, 1e-8, 1e-3, 0.1]),
        "weight_decay": r.choice([0.0, 1e-4, 0.1, r.uniform(0, 1), r.uniform(0, 0.9) / lr]),
    }
    if r.random() < 0.2:
        return {**group, "gamma": 0.0}
    return group | {
        "gamma": r.choice([0.0, 0.05, 10 ** r.uniform(-1, 3)]),
        "p_ext": r.choice([1.0, r.uniform(0, 50)]),
        "max_cancel": r.choice([0.05, 0.0, 1.0, r.uniform(0, 1)]),
        "adaptive_tau": r.random() < 0.75,
        "tau_scale": r.choice([2.0, 0.0, r.uniform(0, 4)]),
        "chaos_tau": r.choice([0.5, 10 ** r.uniform(-4, 0)]),
        "chaos_warmup": r.choice([-1, 0, 0, 0, 1, 2, 3, 5, 8]),
        "total_steps": r.choice([0, 0, 20, 20_000]),
        "gamma_T_max": r.choice([0, 0, 5, 30, 1000]),
        "quantum_decay": r.choice([0.0, 0.0, r.uniform(0, 3), r.uniform(0, 0.9) / lr]),
        "agc_clip": r.choice([0.0, 0.0, 10 ** r.uniform(-3, 2)]),
        "agc_norm": r.choice(["unit", "tensor"]),
        "grad_centralize": r.random() < 0.3,
        "chaos_signal": r.choice(["raw", "relative"]),
        "chaos_scope": r.choice(["tensor", "tensor", "group", "global"]),
        "bf16_update": r.choice(["nearest", "nearest", "stochastic", "kahan"]),
        "maximize": r.random() < 0.2,
    }


def _strides(r: random.Random, shape) -> list:
    """Mostly those of a contiguous tensor; otherwise transposed, channels last, or with gaps."""
    order, gap = list(range(len(shape))), 1
    kind = r.choices(["plain", "transposed", "channels last", "gaps"], [91, 3, 3, 3])[0]
    if kind == "transposed":
        order.reverse()
    elif kind == "channels last" and len(shape) == 4:
        order = [0, 2, 3, 1]
    elif kind == "gaps":
        gap = r.randint(2, 3)
    strides, step = [0] * len(shape), gap
    for i in reversed(order):
        strides[i] = step
        step *= max(shape[i], 1)
    return strides


def _gradient(r: random.Random, generator: torch.Generator, x: Tensor, odd: bool) -> Tensor | None:
    """None, zeros, or normal numbers with spikes, laid out as the parameter or otherwise; odd ones not all finite."""
    if r.random() < 0.12:
        return None
    g = _normal(x.shape, x.dtype, generator, r.choices([1.0, 0.1, 0.0, 100.0], [60, 25, 5, 10])[0])
    if odd and g.numel() and r.random() < 0.3:
        g.view(-1)[r.randrange(g.numel())] = r.choice([float("nan"), float("inf"), -float("inf")])
    return placed(g, x.stride() if r.random() < 0.9 else _strides(r, x.shape), r.randrange(17))
