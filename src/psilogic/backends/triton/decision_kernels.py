"""Triton's kernels for the decision: from sums over units to decay rates and new memory, tensor by tensor, in float64.

They compute the same as `psilogic.gradients.process` and `psilogic.decision.equations`, against which they are tested.
"""

# Triton has no annotations, and its kernels are no Python functions that could have any.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False

import math

import torch
import triton
import triton.language as tl

from psilogic.backends.triton.update_kernels import tanh, typed_pointer
from psilogic.gradients import AGC_FLOOR, NOISE
from psilogic.options import NUMBERS

FLOOR = tl.constexpr(AGC_FLOOR)
NOISE_EPS = tl.constexpr(NOISE * torch.finfo(torch.float64).eps)
INF = tl.constexpr(math.inf)
PI = tl.constexpr(math.pi)

# The rows of the table of numbers that differ between tensors.
LR = tl.constexpr(NUMBERS.index("lr"))
DECAY = tl.constexpr(NUMBERS.index("weight_decay"))
GAMMA = tl.constexpr(NUMBERS.index("gamma"))
P_EXT = tl.constexpr(NUMBERS.index("p_ext"))
CANCEL = tl.constexpr(NUMBERS.index("max_cancel"))
TAU = tl.constexpr(NUMBERS.index("tau_scale"))
CHAOS_TAU = tl.constexpr(NUMBERS.index("chaos_tau"))

# A program processes MANY_ROWS rows of at most FEW parts each, or FEW_ROWS longer rows by PARTS parts at a time.
FEW = tl.constexpr(32)
MANY_ROWS = tl.constexpr(256)
FEW_ROWS = tl.constexpr(2)
PARTS = tl.constexpr(256)


@triton.jit
def _is_finite(x):
    return tl.abs(x) < INF


@triton.jit
def _at_most(x, bound):
    """As torch.clamp(x, max=bound): NaN stays."""
    return tl.where(x > bound, bound, x)


@triton.jit
def _sums(parts, row, units, segments, PARTS: tl.constexpr):
    """The sums of units, each from its consecutive parts."""
    part = tl.arange(0, PARTS)
    total = tl.zeros([row.shape[0], PARTS], tl.float64)
    for before in range(0, segments, PARTS):
        inside = (row < units)[:, None] & (part < segments - before)[None, :]
        total += tl.load(parts + row[:, None] * segments + (before + part)[None, :], mask=inside, other=0.0)
    return tl.sum(total, 1)


@triton.jit
def _agc_scale(squares, param_squares, clip):
    """As `gradients.agc_scale`."""
    norm = tl.sqrt(squares)
    param_norm = tl.sqrt(param_squares)
    largest = clip * tl.where(param_norm < FLOOR, FLOOR, param_norm)
    clipped = (norm > largest) & _is_finite(norm)
    return tl.where(clipped, largest / tl.where(clipped, norm, 1.0), 1.0)


@triton.jit
def _processing(
    parts, sums, param_parts, mean, scale, first_row, units, segments, length, factor, agc_clip,
    ROWS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """As `gradients.process`, for some units of a tensor: writes mean and scale, returns ||g||^2 after both."""
    row = first_row + tl.arange(0, ROWS)
    inside = row < units
    squares = _sums(parts, row, units, segments, SIZE)
    factors = tl.zeros([ROWS], tl.float64) + factor
    if param_parts is not None:
        param_squares = _sums(param_parts, row, units, segments, SIZE)
        factors *= _agc_scale(squares * factor * factor, param_squares, agc_clip)
    if mean is not None:
        means = _sums(sums, row, units, segments, SIZE) / length
        means = tl.where(_is_finite(means), means, 0.0)
        tl.store(mean + row, means, mask=inside)
        centered = squares - length * means * means
        squares = tl.where(centered < squares * NOISE_EPS, 0.0, centered)
    if scale is not None:
        tl.store(scale + row, factors, mask=inside)
        squares *= factors * factors
    return tl.sum(tl.where(inside, squares, 0.0), 0)


@triton.jit
def _processing_of_tensor(
    i, first_row, mean, scale, parts, records, total, grad_scale, width, count, agc_clip, max_norm,
    WITH_PARAMS: tl.constexpr, MAXIMIZE: tl.constexpr, ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):  # fmt: skip
    """The processing of some units of the i-th tensor."""
    units = tl.load(records + 6 * i)
    length = tl.load(records + 6 * i + 1)
    segments = tl.load(records + 6 * i + 2)
    first_item = tl.load(records + 6 * i + 3)
    first_unit = tl.load(records + 6 * i + 4)
    parts += tl.where(segments == 1, first_unit, count + first_item)
    sums = None
    param_parts = None
    if mean is not None:
        mean += first_unit
        sums = parts + (2 if WITH_PARAMS else 1) * width
    if WITH_PARAMS:
        param_parts = parts + width
    if scale is not None:
        scale += first_unit
    factor = _factor(total, grad_scale, max_norm, MAXIMIZE)
    divisor = tl.maximum(length, 1).to(tl.float64)
    return _processing(
        parts, sums, param_parts, mean, scale, first_row, units, segments, divisor, factor, agc_clip,
        ROWS, SIZE,
    )  # fmt: skip


@triton.jit
def _factor(total, grad_scale, max_norm, MAXIMIZE: tl.constexpr):
    """As `gradients.common_factor`, with the sign of `maximize`."""
    factor = tl.full((), -1.0 if MAXIMIZE else 1.0, tl.float64)
    unscale = tl.full((), 1.0, tl.float64)
    if grad_scale is not None:
        unscale /= tl.load(grad_scale).to(tl.float64)
    if total is not None:
        norm = unscale * tl.sqrt(tl.load(total))
        unscale *= _at_most(max_norm / (norm + 1e-6), 1.0)
    return factor * unscale


@triton.jit
def _observe(gn, fast, slow, reference, eps, RELATIVE: tl.constexpr):
    """As `decision.observe`."""
    finite = _is_finite(gn)
    signal = gn
    starts = False
    new_reference = reference
    if RELATIVE:
        starts = reference == 0.0
        new_reference = tl.where(starts, gn, 0.99 * reference + 0.01 * gn)
        signal = gn / (new_reference + eps)
    new_fast = tl.where(starts, 1.0, 0.90 * fast + 0.10 * signal)
    new_slow = tl.where(starts, 1.0, 0.99 * slow + 0.01 * signal)
    return (
        tl.where(finite, new_fast, fast),
        tl.where(finite, new_slow, slow),
        tl.where(finite, new_reference, reference),
    )


@triton.jit
def _remember(pointer, value, overflow):
    """Write a scalar of the state, unless there was an overflow."""
    old = tl.load(pointer)
    tl.store(pointer, tl.where(overflow, old, value.to(old.dtype)))


PROCESSED = ["squares", "mean", "scale", "parts", "records", "tiles", "tensors", "total", "grad_scale"]


@triton.jit(do_not_specialize=["width", "count"], do_not_specialize_on_alignment=PROCESSED)
def processing_kernel(
    squares, mean, scale, parts, records, tiles, tensors, total, grad_scale, width: tl.int64, count: tl.int64,
    agc_clip: tl.float64, max_norm: tl.float64,
    WITH_PARAMS: tl.constexpr, MAXIMIZE: tl.constexpr,
):  # fmt: skip
    """The processing of a tile of units of one tensor, and their ||g||^2 after it."""
    program = tl.program_id(0)
    i = tl.load(tensors + program)
    tile = program - tl.load(tiles + 2 * i)
    if tl.load(records + 6 * i + 2) <= FEW:
        result = _processing_of_tensor(
            i, tile * MANY_ROWS, mean, scale, parts, records, total, grad_scale, width, count, agc_clip, max_norm,
            WITH_PARAMS, MAXIMIZE, MANY_ROWS, 1,
        )  # fmt: skip
    else:
        result = _processing_of_tensor(
            i, tile * FEW_ROWS, mean, scale, parts, records, total, grad_scale, width, count, agc_clip, max_norm,
            WITH_PARAMS, MAXIMIZE, FEW_ROWS, PARTS,
        )  # fmt: skip
    tl.store(squares + program, result)


POINTERS = [
    "out", "scale", "parts", "records", "squares", "tiles", "total", "grad_scale", "found_inf", "scalars",
    "lr_pointer", "numbers",
]  # fmt: skip


@triton.jit(do_not_specialize=["width", "count"], do_not_specialize_on_alignment=POINTERS)
def decide_kernel(
    out, scale, parts, records, squares, tiles, total, grad_scale, found_inf, scalars, lr_pointer, numbers,
    width: tl.int64, count: tl.int64, lr: tl.float64, weight_decay: tl.float64, gamma: tl.float64,
    p_ext: tl.float64, max_cancel: tl.float64, tau: tl.float64, eps: tl.float64, t_warm: tl.float64,
    T_max: tl.float64, quantum_decay: tl.float64, agc_clip: tl.float64, max_norm: tl.float64,
    WITH_PARAMS: tl.constexpr, ADAPTIVE: tl.constexpr, MAXIMIZE: tl.constexpr, RELATIVE: tl.constexpr,
    CLOCK: tl.constexpr, MEMORY: tl.constexpr,
):  # fmt: skip
    """The decision for one tensor (see `decide`), from the squares of `processing_kernel` if it was launched.

    The table of scalars has the addresses of each tensor's clocks, of dtype CLOCK, and of its memory, of dtype MEMORY.
    """
    i = tl.program_id(0)
    n = tl.num_programs(0)
    if squares is not None:
        lane = tl.arange(0, PARTS)
        first = tl.load(tiles + 2 * i)
        tile_count = tl.load(tiles + 2 * i + 1)
        processed = tl.zeros([PARTS], tl.float64)
        for before in range(0, tile_count, PARTS):
            processed += tl.load(squares + first + before + lane, mask=lane < tile_count - before, other=0.0)
        squares_after = tl.sum(processed, 0)
    else:
        squares_after = _processing_of_tensor(
            i, 0, None, scale, parts, records, total, grad_scale, width, count, agc_clip, max_norm,
            WITH_PARAMS, MAXIMIZE, 1, PARTS,
        )  # fmt: skip
    numel = tl.load(records + 6 * i) * tl.load(records + 6 * i + 1)
    gn = tl.sqrt(squares_after) / tl.sqrt(tl.maximum(numel, 1).to(tl.float64))

    if numbers is not None:
        numbers += i
        lr = tl.load(numbers + LR * n)
        weight_decay = tl.load(numbers + DECAY * n)
        gamma = tl.load(numbers + GAMMA * n)
        p_ext = tl.load(numbers + P_EXT * n)
        max_cancel = tl.load(numbers + CANCEL * n)
        tau = tl.load(numbers + (TAU if ADAPTIVE else CHAOS_TAU) * n)
    elif lr_pointer is not None:
        lr = tl.load(lr_pointer)
    one = tl.full((), 1.0, tl.float64)
    lr = lr * one
    eps = eps * one
    overflow = False
    if found_inf is not None:
        overflow = tl.load(found_inf) > 0.0
    scalars += i
    step = typed_pointer(tl.load(scalars), CLOCK)
    start = typed_pointer(tl.load(scalars + n), CLOCK)
    fast = typed_pointer(tl.load(scalars + 2 * n), MEMORY)
    slow = typed_pointer(tl.load(scalars + 3 * n), MEMORY)
    t = tl.load(step) + 1
    since = t.to(tl.float64) - tl.load(start).to(tl.float64)
    _remember(step, t, overflow)
    t = t.to(tl.float64)
    old_reference = 0.0
    if RELATIVE:
        old_reference = tl.load(typed_pointer(tl.load(scalars + 4 * n), MEMORY)).to(tl.float64)
    old_fast = tl.load(fast).to(tl.float64)
    old_slow = tl.load(slow).to(tl.float64)
    new_fast, new_slow, new_reference = _observe(gn, old_fast, old_slow, old_reference, eps, RELATIVE)
    _remember(fast, new_fast, overflow)
    _remember(slow, new_slow, overflow)
    margin = 0.0
    if RELATIVE:
        _remember(typed_pointer(tl.load(scalars + 4 * n), MEMORY), new_reference, overflow)
        margin = eps

    ratio = new_fast / (new_slow + eps)
    excess = ratio - 1.0
    excess = tl.where(excess < 0.0, 0.0, excess)
    chaos = tanh(new_slow) * (1.0 + 0.5 * tanh(excess))
    gate = new_fast > tau * new_slow + margin if ADAPTIVE else new_slow >= tau
    known = _is_finite(gn)
    ramp = (since - t_warm) / (t_warm * 0.25)
    warmup = tl.where(t_warm > 0.0, tl.minimum(tl.maximum(ramp, 0.0), 1.0), 1.0)
    warmup = tl.where(known, warmup, 0.0)
    progress = tl.minimum(t / T_max, 1.0)
    schedule = tl.where(T_max > 0.0, 0.5 * (1.0 + tl.cos(progress * PI)), 1.0)
    cancelled = _at_most(chaos * lr * gamma * schedule * p_ext, max_cancel)
    cancelled = warmup * tl.where(gate & known, cancelled, 0.0)
    decay = lr * weight_decay + cancelled
    quantum_rate = lr * quantum_decay * schedule * warmup * tl.where(gate, 0.0, 1.0)

    out += i
    tl.store(out, t)
    tl.store(out + n, decay)
    tl.store(out + 2 * n, quantum_rate)
    tl.store(out + 3 * n, gn)
    tl.store(out + 4 * n, new_fast)
    tl.store(out + 5 * n, new_slow)
    tl.store(out + 6 * n, new_reference)
    tl.store(out + 7 * n, ratio)
    tl.store(out + 8 * n, chaos)
    tl.store(out + 9 * n, gate.to(tl.float64))
    tl.store(out + 10 * n, warmup)
    tl.store(out + 11 * n, cancelled)
