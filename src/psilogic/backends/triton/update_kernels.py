"""Triton's kernel for the update of a chunk of one tensor, and what kernels have in common.

Kernels get the tensors' addresses in a table, as int64, so that one launch is enough for any number of tensors.
Each program computes the numbers of its tensor (bias corrections, decay) from vectors on the device: nothing waits for
the host. Chunks with addresses that are multiples of 16 bytes move as 128-bit words; the device decides that for each
chunk, and the others take a path without assumptions. Elements are computed in float32, those of float64 tensors in
float64.
"""

# Triton has no annotations, and its kernels are no Python functions that could have any.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False

import triton
import triton.language as tl

if tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 4):
    raise ImportError(f"psilogic needs triton 3.4 or newer, not {triton.__version__}: arguments in float64")

WORD = tl.constexpr(16)
"""Bytes of the widest load; for every dtype also a number of elements that fills such loads."""


@triton.jit
def _divide(x, y):
    """The quotient, rounded to nearest; for numbers that all elements of a tensor share."""
    return x / y if x.dtype.is_fp64() else tl.div_rn(x, y)


@triton.jit
def _pade(x):
    """Numerator and denominator of tanh for x <= 1/2, where exponentials cancel; exact there, also in float64."""
    x = tl.minimum(x, 0.5)
    x2 = x * x
    numerator = x * (135135.0 + x2 * (17325.0 + x2 * (378.0 + x2)))
    return numerator, 135135.0 + x2 * (62370.0 + x2 * (3150.0 + x2 * 28.0))


@triton.jit
def tanh(x):
    """The tanh of x >= 0; no exponential overflows."""
    numerator, denominator = _pade(x)
    e = tl.exp(-2.0 * x)
    return tl.where(x < 0.5, numerator, 1.0 - e) / tl.where(x < 0.5, denominator, 1.0 + e)


@triton.jit
def bias_correction(log_beta, t, DTYPE: tl.constexpr):
    """1 - beta^t without cancellation: with n / d = tanh(-t log(beta) / 2) it is 2n / (d + n)."""
    x = (t * log_beta * -0.5).to(DTYPE)
    numerator, denominator = _pade(x)
    return tl.where(x < 0.5, _divide(2.0 * numerator, denominator + numerator), 1.0 - tl.exp(-2.0 * x))


@triton.jit
def _number(x, DTYPE: tl.constexpr):
    """A hyperparameter (float64, or in the interpreter a Python float) as a scalar of a dtype."""
    return (x * tl.full((), 1.0, tl.float64)).to(DTYPE)


@triton.jit
def _row(lane, offset, length, CHUNK: tl.constexpr):
    """The row of each element, relative to the row of the chunk's first element, which is at `offset` in its row.

    An integer division for each element would cost more than the update. If rows are at least as long as a chunk, a
    chunk contains at most one end of a row. Otherwise all numbers are below 2 CHUNK, and float32 is exact enough for
    their division: (n + 1/2) / length differs by at least 1 / (2 length) from a whole number.
    """
    n = lane + tl.minimum(offset, CHUNK).to(tl.int32)
    several = ((n.to(tl.float32) + 0.5) * (1.0 / length.to(tl.float32))).to(tl.int32)
    one = lane >= tl.minimum(length - offset, CHUNK).to(tl.int32)
    return tl.where(length < CHUNK, several, one.to(tl.int32))


@triton.jit
def typed_pointer(address, DTYPE: tl.constexpr):
    """The address as a pointer to numbers of a dtype."""
    return address.to(tl.pointer_type(DTYPE))


@triton.jit
def aligned_pointer(address, DTYPE: tl.constexpr):
    """As `typed_pointer`, with the hint to the compiler that the address is a multiple of 16 bytes.

    The hint marks the operation that makes the pointer, which the other path must therefore not share.
    """
    return tl.multiple_of((address // WORD * WORD).to(tl.pointer_type(DTYPE)), WORD)


@triton.jit
def _part(
    p, g, m, v, before, size, mean, scale, unit, offset, length, keep, quantum_rate, weight1, beta2, weight2,
    step_size, inverse_root2, eps, DTYPE: tl.constexpr, ACC: tl.constexpr, BY_ROWS: tl.constexpr, CHUNK: tl.constexpr,
    PART: tl.constexpr,
):  # fmt: skip
    """The update of a part of a chunk: of the elements from `before` to at most the chunk's `size`."""
    lane = before + tl.arange(0, PART)  # not shared, so that each path gets the layout that suits it
    inside = lane < size
    if BY_ROWS:
        unit += tl.where(inside, _row(lane, offset, length, CHUNK), 0)
    theta = tl.load(p + lane, mask=inside, other=0.0).to(ACC)
    grad = tl.load(g + lane, mask=inside, other=0.0).to(ACC)
    exp_avg = tl.load(m + lane, mask=inside, other=0.0).to(ACC)
    exp_avg_sq = tl.load(v + lane, mask=inside, other=0.0).to(ACC)
    if mean is not None:
        grad -= tl.load(mean + unit).to(ACC)
    if scale is not None:
        grad *= tl.load(scale + unit).to(ACC)
    theta *= keep
    if quantum_rate is not None:
        theta *= 1.0 - quantum_rate * tanh(tl.abs(grad))
    # As torch.lerp: from the nearer end, so that a weight of 1 returns the gradient exactly.
    change = grad - exp_avg
    exp_avg = tl.where(weight1 < 0.5, exp_avg + weight1 * change, grad - (1.0 - weight1) * change)
    exp_avg_sq = beta2 * exp_avg_sq + weight2 * grad * grad
    # The fast root treats numbers below 1e-38 as zero: small ones are multiplied by 2^64 before.
    small = exp_avg_sq < 2.0**-64
    enlarged = tl.where(small, exp_avg_sq * 2.0**64, exp_avg_sq)
    root = tl.sqrt(enlarged) * tl.where(small, 2.0**-32, 1.0)
    theta -= step_size * (exp_avg / (root * inverse_root2 + eps))
    tl.store(p + lane, theta.to(DTYPE), mask=inside)
    tl.store(m + lane, exp_avg.to(DTYPE), mask=inside)
    tl.store(v + lane, exp_avg_sq.to(DTYPE), mask=inside)


VECTORS = ["addresses", "records", "tensors", "t", "decay", "quantum_rate", "mean", "scale", "lr_pointer", "found_inf"]


@triton.jit(do_not_specialize=["tensor_count", "lr_stride"], do_not_specialize_on_alignment=VECTORS)
def update_kernel(
    addresses, records, tensors, t, decay, quantum_rate, mean, scale, lr_pointer, found_inf,
    tensor_count: tl.int64, lr_stride: tl.int64, lr: tl.float64, beta1: tl.float64, beta2: tl.float64,
    log_beta1: tl.float64, log_beta2: tl.float64, eps: tl.float64,
    DTYPE: tl.constexpr, ACC: tl.constexpr, ITEMSIZE: tl.constexpr, BY_ROWS: tl.constexpr, CHUNK: tl.constexpr,
    ALIGNED_PART: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """The update of one chunk of one tensor, as described in `update_`, in parts.

    Unaligned loads need more registers: their parts are smaller.
    """
    program = tl.program_id(0)
    i = tl.load(tensors + program)
    addresses += i
    p = tl.load(addresses)
    g = tl.load(addresses + tensor_count)
    m = tl.load(addresses + 2 * tensor_count)
    v = tl.load(addresses + 3 * tensor_count)
    numel = tl.load(records + 4 * i)
    first_chunk = tl.load(records + 4 * i + 1)
    unit = tl.load(records + 4 * i + 2)
    start = (program - first_chunk) * CHUNK
    size = tl.minimum(numel - start, CHUNK).to(tl.int32)
    if found_inf is not None:
        size = tl.where(tl.load(found_inf) > 0.0, 0, size)
    length = 1
    offset = 0
    if BY_ROWS:
        length = tl.load(records + 4 * i + 3)
        unit += start // length
        offset = start % length

    step = tl.load(t + i).to(tl.float64)
    if lr_pointer is not None:
        lr = tl.load(lr_pointer + i * lr_stride).to(tl.float64)
    step_size = _divide(_number(lr, ACC), bias_correction(log_beta1, step, ACC))
    inverse_root2 = _divide(_number(1.0, ACC), tl.sqrt(bias_correction(log_beta2, step, ACC)))
    keep = (1.0 - tl.load(decay + i).to(tl.float64)).to(ACC)
    rate = None
    if quantum_rate is not None:
        rate = tl.load(quantum_rate + i).to(ACC)
    weight1 = _number(1.0 - beta1, ACC)
    weight2 = _number(1.0 - beta2, ACC)
    beta2 = _number(beta2, ACC)
    eps = _number(eps, ACC)

    bytes_before = start * ITEMSIZE
    p += bytes_before
    g += bytes_before
    m += bytes_before
    v += bytes_before
    if (p | g | m | v | size) % WORD == 0:
        size = size // WORD * WORD
        for before in range(0, size, ALIGNED_PART):
            _part(
                aligned_pointer(p, DTYPE), aligned_pointer(g, DTYPE), aligned_pointer(m, DTYPE),
                aligned_pointer(v, DTYPE), before, size,
                mean, scale, unit, offset, length, keep, rate, weight1, beta2, weight2, step_size, inverse_root2, eps,
                DTYPE, ACC, BY_ROWS, CHUNK, ALIGNED_PART,
            )  # fmt: skip
    else:
        for before in range(0, size, PART):
            _part(
                typed_pointer(p, DTYPE), typed_pointer(g, DTYPE), typed_pointer(m, DTYPE),
                typed_pointer(v, DTYPE), before, size,
                mean, scale, unit, offset, length, keep, rate, weight1, beta2, weight2, step_size, inverse_root2, eps,
                DTYPE, ACC, BY_ROWS, CHUNK, PART,
            )  # fmt: skip


@triton.jit
def trial_kernel(out):
    """A kernel that only stores a number, which shows whether kernels can be launched."""
    tl.store(out, 1)


INTERPRETED = not isinstance(update_kernel, triton.JITFunction)
"""Whether Triton runs kernels in its interpreter, on the CPU: TRITON_INTERPRET=1 was set when it was imported."""
