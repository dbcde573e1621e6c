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
BETAS = [(0.9, 0.999), (0.9, 0.999), (0.0, 0.9), (0.0, 0.0), (0.5, 0.5), (0.3, 0.99), (0.9, 0.0)]
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
        installed = "with" if self.compiled else "without"
        steps = f"{len(self.script)} steps, {self.threads} threads"
        lines = [f"{installed} kernels, {steps}, {self.common}, {self.scaler}"]
        lines += [str(group) for group in self.groups]
        for x, group, i in zip(self.initial, self.members, self.shared, strict=True):
            line = f"{tuple(x.shape)} {x.dtype} strides {x.stride()} group {group}"
            if i is not None:
                line += f" in {i}"
            lines.append(line)
        return "\n    ".join(lines)

    @property
    def dtypes(self):
        return {x.dtype for x in self.initial}

    @property
    def options(self):
        """The complete hyperparameters of each group."""
        return [{**self.common, **group} for group in self.groups]


def placed(values: Tensor, strides, offset: int) -> Tensor:
    """A copy with these strides at an offset, in elements, from the start of its memory."""
    last = sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True))
    extent = max(last + 1, 0)
    memory = torch.zeros(offset + extent + 8, dtype=values.dtype)
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


def draw(seed: int, small: bool = False, dtypes: list | None = None) -> Trial:
    """The trial of a seed, optionally without long tensors, and of these dtypes only."""
    r = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    compiled = r.random() < 0.7
    drawn = r.choices([*[[dtype] for dtype in DTYPES], DTYPES], [35, 20, 12, 8, 7, 18])[0]
    dtypes = dtypes or drawn
    sizes = SMALL
    if not small:
        sizes = r.choices([SMALL, [*SMALL, *LONG], [*LONG, *HUGE]], [80, 18, 2])[0]
    count = 1 if sizes[-1] is HUGE[-1] else r.randint(1, 7)
    shapes = [r.choice(sizes) for _ in range(count)]
    common = {"max_grad_norm": r.choice([None, None, 10 ** r.uniform(-1, 2)])}
    groups = _groups(r)
    if torch.float16 in dtypes:
        for group in groups:
            group["eps"] = 1e-3  # not 0 in float16
    initial, shared = _initial(r, generator, shapes, dtypes)
    odd = r.random() < 0.12
    script = []
    for _ in range(r.randint(3, 14)):
        script.append([_gradient(r, generator, x, odd) for x in initial])
    scaler = {}
    if r.random() < 0.2:
        scaler = {"found_inf": torch.zeros(()), "grad_scale": r.choice([torch.tensor(2.0**10), None])}
    if not _is_supported(groups, initial, script):
        for group in groups:
            group["fused"] = None  # fused=True is refused if no execution supports it
    members = [r.randrange(len(groups)) for _ in initial]
    used = sorted(set(members))
    threads = 1 if small else r.randint(1, 3)
    return Trial(
        seed=seed,
        compiled=compiled,
        threads=threads,
        groups=[groups[i] for i in used],
        common=common,
        members=[used.index(i) for i in members],
        initial=initial,
        shared=shared,
        script=script,
        scaler=scaler,
        tiny=sizes is SMALL,
        finite=all(_is_finite(grads) for grads in script),
    )


def _groups(r: random.Random) -> list:
    """The hyperparameters of one to three groups; most have the same flags."""
    usual_flags = _flags(r)
    groups = []
    for _ in range(r.randint(1, 3)):
        group = _group(r)
        flags = usual_flags if r.random() < 0.7 else _flags(r)
        groups.append({**group, **flags})
    return groups


def _initial(r: random.Random, generator: torch.Generator, shapes, dtypes) -> tuple[list, list]:
    """The parameters, and for each the earlier one with the same memory, or None."""
    initial = []
    shared = []
    for shape in shapes:
        dtype = r.choice(dtypes)
        x = _normal(shape, dtype, generator, scale=r.choice([1, 1, 1, 1e-2, 1e-5]))
        alike = []
        for i, earlier in enumerate(initial):
            if shared[i] is None and earlier.shape == x.shape and earlier.dtype == x.dtype:
                alike.append(i)
        if alike and r.random() < 0.1:
            i = r.choice(alike)
            shared.append(i)
            initial.append(initial[i])
        else:
            strides = _strides(r, x.shape)
            shared.append(None)
            initial.append(placed(x, strides, offset=r.randrange(17)))
    return initial, shared


def _is_supported(groups, initial, script) -> bool:
    """Whether an execution besides foreach supports all tensors in all groups."""
    if any(group.get("bf16_update", "nearest") != "nearest" for group in groups):
        return False
    for tensors in (initial, *script):
        for x in tensors:
            if x is not None and not (x.is_contiguous() and x.dtype in DTYPES[:3]):
                return False
    return True


def _is_finite(grads) -> bool:
    return all(g is None or bool(g.isfinite().all()) for g in grads)


def _normal(shape, dtype, generator: torch.Generator, scale: float) -> Tensor:
    wide = torch.complex128 if dtype.is_complex else torch.float64
    values = torch.randn(shape, generator=generator, dtype=wide) * scale
    return values.to(dtype)


def _flags(r: random.Random) -> dict:
    """How a group is executed."""
    flags = r.choices(FLAGS, [70, 15, 15])[0]
    others = [None, None, True] if flags["foreach"] is None else [None, False]
    fused = r.choice(others)
    return {**flags, "fused": fused, "capturable": r.random() < 0.15}


def _group(r: random.Random) -> dict:
    """Hyperparameters over their whole range; one group in five has AdamW's only."""
    lr = r.choice([1e-3, 0.01, 0.1, 10 ** r.uniform(-4, 0)])
    group = {}
    group["lr"] = torch.tensor(lr) if r.random() < 0.15 else lr
    group["betas"] = r.choice(BETAS)
    group["eps"] = r.choice([1e-8, 1e-8, 1e-3, 0.1])
    group["weight_decay"] = r.choice([0.0, 1e-4, 0.1, r.uniform(0, 1), r.uniform(0, 0.9) / lr])
    if r.random() < 0.2:
        group["gamma"] = 0.0
        return group
    group["gamma"] = r.choice([0.0, 0.05, 10 ** r.uniform(-1, 3)])
    group["p_ext"] = r.choice([1.0, r.uniform(0, 50)])
    group["max_cancel"] = r.choice([0.05, 0.0, 1.0, r.uniform(0, 1)])
    group["adaptive_tau"] = r.random() < 0.75
    group["tau_scale"] = r.choice([2.0, 0.0, r.uniform(0, 4)])
    group["chaos_tau"] = r.choice([0.5, 10 ** r.uniform(-4, 0)])
    group["chaos_warmup"] = r.choice([-1, 0, 0, 0, 1, 2, 3, 5, 8])
    group["total_steps"] = r.choice([0, 0, 20, 20_000])
    group["gamma_T_max"] = r.choice([0, 0, 5, 30, 1000])
    group["quantum_decay"] = r.choice([0.0, 0.0, r.uniform(0, 3), r.uniform(0, 0.9) / lr])
    group["agc_clip"] = r.choice([0.0, 0.0, 10 ** r.uniform(-3, 2)])
    group["agc_norm"] = r.choice(["unit", "tensor"])
    group["grad_centralize"] = r.random() < 0.3
    group["chaos_signal"] = r.choice(["raw", "relative"])
    group["chaos_scope"] = r.choice(["tensor", "tensor", "group", "global"])
    group["bf16_update"] = r.choice(["nearest", "nearest", "stochastic", "kahan"])
    group["maximize"] = r.random() < 0.2
    return group


def _strides(r: random.Random, shape) -> list:
    """Mostly those of a contiguous tensor; otherwise transposed, channels last, or with gaps."""
    order = list(range(len(shape)))
    gap = 1
    kind = r.choices(["plain", "transposed", "channels last", "gaps"], [91, 3, 3, 3])[0]
    if kind == "transposed":
        order.reverse()
    elif kind == "channels last" and len(shape) == 4:
        order = [0, 2, 3, 1]
    elif kind == "gaps":
        gap = r.randint(2, 3)
    strides = [0] * len(shape)
    step = gap
    for i in reversed(order):
        strides[i] = step
        step *= max(shape[i], 1)
    return strides


def _gradient(r: random.Random, generator: torch.Generator, x: Tensor, odd: bool) -> Tensor | None:
    """None, zeros, or normal numbers with spikes, laid out as the parameter or otherwise; odd ones not all finite."""
    if r.random() < 0.12:
        return None
    scale = r.choices([1.0, 0.1, 0.0, 100.0], [60, 25, 5, 10])[0]
    g = _normal(x.shape, x.dtype, generator, scale)
    if odd and g.numel() and r.random() < 0.3:
        bad = r.choice([float("nan"), float("inf"), -float("inf")])
        g.view(-1)[r.randrange(g.numel())] = bad
    strides = x.stride() if r.random() < 0.9 else _strides(r, x.shape)
    return placed(g, strides, offset=r.randrange(17))
