"""Triton's kernels: the update of a chunk of one tensor, sums over rows or parts of rows, and sums of such sums.

The kernels get the tensors' addresses in a table, as int64, so that one launch is enough for any number of tensors.
Each program computes the numbers of its tensor (bias corrections, decay) from vectors on the device: nothing waits for
the host. Chunks with addresses that are multiples of 16 bytes move as 128-bit words; the device decides that for each
chunk, and the others take a path without assumptions. Elements are computed in float32, those of float64 tensors in
float64. With sums of gradients all is added in float64, so that a row of equal elements minus its mean is exactly zero.
"""

# Triton has no annotations, and its kernels are no Python functions that could have any.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False

import triton
import triton.language as tl

if tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 4):
    raise ImportError(f"psilogic needs triton 3.4 or newer, not {triton.__version__}: arguments in float64")

# A program of the statistics sums TILE elements at once: of one row, or of several if rows are at most SHORT or MIDDLE
# long.
TILE = tl.constexpr(2048)
SHORT = tl.constexpr(64)
MIDDLE = tl.constexpr(512)
# A program sums ROWS rows of at most LONG elements together, COLUMNS of each at once: a program for each row would
# mainly wait for its first loads.
LONG = tl.constexpr(4096)
ROWS = tl.constexpr(8)
COLUMNS = tl.constexpr(128)
SEGMENT = tl.constexpr(16384)
"""The most elements of one row that a program sums; longer rows are completed by a second launch."""
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
def _tanh(x):
    """The tanh of x >= 0; no exponential overflows."""
    numerator, denominator = _pade(x)
    e = tl.exp(-2.0 * x)
    return tl.where(x < 0.5, numerator, 1.0 - e) / tl.where(x < 0.5, denominator, 1.0 + e)


@triton.jit
def _bias_correction(log_beta, t, DTYPE: tl.constexpr):
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
def _pointer(address, DTYPE: tl.constexpr):
    return address.to(tl.pointer_type(DTYPE))


@triton.jit
def _aligned(address, DTYPE: tl.constexpr):
    """A pointer with the hint to the compiler that it is a multiple of 16 bytes.

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
        theta *= 1.0 - quantum_rate * _tanh(tl.abs(grad))
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


@triton.jit(do_not_specialize=["lr_stride"], do_not_specialize_on_alignment=VECTORS)
def update_kernel(
    addresses, records, tensors, t, decay, quantum_rate, mean, scale, lr_pointer, found_inf, lr_stride: tl.int64,
    lr: tl.float64, beta1: tl.float64, beta2: tl.float64, log_beta1: tl.float64, log_beta2: tl.float64, eps: tl.float64,
    DTYPE: tl.constexpr, ACC: tl.constexpr, ITEMSIZE: tl.constexpr, BY_ROWS: tl.constexpr, CHUNK: tl.constexpr,
    ALIGNED_PART: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """The update of one chunk of one tensor, as described in `update_`, in parts.

    Unaligned loads need more registers: their parts are smaller.
    """
    program = tl.program_id(0)
    i = tl.load(tensors + program)
    p = tl.load(addresses + 4 * i)
    g = tl.load(addresses + 4 * i + 1)
    m = tl.load(addresses + 4 * i + 2)
    v = tl.load(addresses + 4 * i + 3)
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
    step_size = _divide(_number(lr, ACC), _bias_correction(log_beta1, step, ACC))
    inverse_root2 = _divide(_number(1.0, ACC), tl.sqrt(_bias_correction(log_beta2, step, ACC)))
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
                _aligned(p, DTYPE), _aligned(g, DTYPE), _aligned(m, DTYPE), _aligned(v, DTYPE), before, size,
                mean, scale, unit, offset, length, keep, rate, weight1, beta2, weight2, step_size, inverse_root2, eps,
                DTYPE, ACC, BY_ROWS, CHUNK, ALIGNED_PART,
            )  # fmt: skip
    else:
        for before in range(0, size, PART):
            _part(
                _pointer(p, DTYPE), _pointer(g, DTYPE), _pointer(m, DTYPE), _pointer(v, DTYPE), before, size,
                mean, scale, unit, offset, length, keep, rate, weight1, beta2, weight2, step_size, inverse_root2, eps,
                DTYPE, ACC, BY_ROWS, CHUNK, PART,
            )  # fmt: skip


@triton.jit
def _store(out, slots, mask, squares, sums, width, centered, WITH_SUMS: tl.constexpr):
    """Store squares in this program's row of the output, and with WITH_SUMS the sums of gradients in the last row."""
    tl.store(out + tl.program_id(1) * width + slots, squares.to(tl.float64), mask=mask)
    if WITH_SUMS:
        sums = tl.where(centered != 0, sums, 0.0).to(tl.float64)
        if tl.program_id(1) == 0:
            tl.store(out + tl.num_programs(1) * width + slots, sums, mask=mask)


@triton.jit
def _sum_rows(
    out, address, item, units, length, first_unit, width, centered,
    DTYPE: tl.constexpr, ACC: tl.constexpr, WITH_SUMS: tl.constexpr, LONGEST: tl.constexpr,
):  # fmt: skip
    """The sums of the rows of a tile, none longer than LONGEST."""
    COUNT: tl.constexpr = TILE // LONGEST
    first = item * COUNT
    rows = tl.arange(0, COUNT)
    columns = tl.arange(0, LONGEST)
    inside = (rows < units - first)[:, None] & (columns < length)[None, :]
    offsets = rows[:, None] * length.to(tl.int32) + columns[None, :]
    x = tl.load(_pointer(address, DTYPE) + first * length + offsets, mask=inside, other=0.0).to(ACC)
    slots = first_unit + first + rows
    mask = rows < units - first
    _store(out, slots, mask, tl.sum(x * x, 1), tl.sum(x, 1), width, centered, WITH_SUMS)


@triton.jit
def _sum_columns(pointer, rows, columns, count, length, ACC: tl.constexpr):
    """The sums of some rows, COLUMNS of each at a time."""
    squares = tl.zeros([rows.shape[0], COLUMNS], ACC)
    sums = tl.zeros([rows.shape[0], COLUMNS], ACC)
    for before in range(0, length, COLUMNS):
        inside = (rows < count)[:, None] & (columns < length - before)[None, :]
        x = tl.load(pointer + rows[:, None] * length + (before + columns)[None, :], mask=inside, other=0.0).to(ACC)
        squares += x * x
        sums += x
    return tl.sum(squares, 1), tl.sum(sums, 1)


@triton.jit
def _sum_long_rows(
    out, address, item, units, length, first_unit, width, centered,
    DTYPE: tl.constexpr, ACC: tl.constexpr, ITEMSIZE: tl.constexpr, WITH_SUMS: tl.constexpr,
):  # fmt: skip
    """The sums of ROWS rows, none longer than LONG."""
    first = item * ROWS
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    address += first * length * ITEMSIZE
    size = length.to(tl.int32)
    count = tl.minimum(units - first, ROWS).to(tl.int32)
    if (address | size) % WORD == 0:
        size = size // WORD * WORD
        squares, sums = _sum_columns(_aligned(address, DTYPE), rows, columns, count, size, ACC)
    else:
        squares, sums = _sum_columns(_pointer(address, DTYPE), rows, columns, count, size, ACC)
    _store(out, first_unit + first + rows, rows < count, squares, sums, width, centered, WITH_SUMS)


@triton.jit
def _sum_part(pointer, size, ACC: tl.constexpr):
    """The sums of squares and of elements of a part of a row."""
    squares = tl.zeros([TILE], ACC)
    sums = tl.zeros([TILE], ACC)
    for before in range(0, size, TILE):
        lane = before + tl.arange(0, TILE)
        x = tl.load(pointer + lane, mask=lane < size, other=0.0).to(ACC)
        squares += x * x
        sums += x
    return tl.sum(squares, 0), tl.sum(sums, 0)


@triton.jit(
    do_not_specialize=["count", "width"], do_not_specialize_on_alignment=["out", "addresses", "records", "tensors"]
)
def statistics_kernel(
    out, addresses, records, tensors, count: tl.int64, width: tl.int64,
    DTYPE: tl.constexpr, ACC: tl.constexpr, ITEMSIZE: tl.constexpr, WITH_SUMS: tl.constexpr,
):  # fmt: skip
    """The sums of a tile of rows, or of a part of one row, of the tensors that grid axis 1 counts."""
    program = tl.program_id(0)
    i = tl.load(tensors + program)
    address = tl.load(addresses + tl.num_programs(1) * i + tl.program_id(1))
    units = tl.load(records + 6 * i)
    length = tl.load(records + 6 * i + 1)
    segments = tl.load(records + 6 * i + 2)
    item = program - tl.load(records + 6 * i + 3)
    first_unit = tl.load(records + 6 * i + 4)
    centered = tl.load(records + 6 * i + 5)
    if length <= SHORT:
        _sum_rows(out, address, item, units, length, first_unit, width, centered, DTYPE, ACC, WITH_SUMS, SHORT)
    elif length <= MIDDLE:
        _sum_rows(out, address, item, units, length, first_unit, width, centered, DTYPE, ACC, WITH_SUMS, MIDDLE)
    elif (length <= LONG) & (segments == 1):
        _sum_long_rows(out, address, item, units, length, first_unit, width, centered, DTYPE, ACC, ITEMSIZE, WITH_SUMS)
    else:
        row = item // segments
        before = item % segments * SEGMENT
        size = tl.minimum(length - before, SEGMENT).to(tl.int32)
        address += (row * length + before) * ITEMSIZE
        if (address | size) % WORD == 0:
            squares, sums = _sum_part(_aligned(address, DTYPE), size // WORD * WORD, ACC)
        else:
            squares, sums = _sum_part(_pointer(address, DTYPE), size, ACC)
        # The parts of rows are stored after the results of all units.
        slot = tl.where(segments == 1, first_unit + row, count + program)
        _store(out, slot, size > 0, squares, sums, width, centered, WITH_SUMS)
    # The other position gets 0: that of a row in parts, or that of a part of a row without parts.
    if width > count:
        other = tl.where(segments == 1, count + program, first_unit + item // segments)
        tl.store(out + tl.program_id(1) * width + other, 0.0)


@triton.jit(do_not_specialize=["width"], do_not_specialize_on_alignment=["out", "splits"])
def complete_kernel(out, splits, width: tl.int64, PARTS: tl.constexpr):
    """The sum of one long row from those of its parts, in float64 and always in the same order."""
    split = splits + 3 * tl.program_id(0)
    unit = tl.load(split)
    first = tl.load(split + 1)
    count = tl.load(split + 2)
    out += tl.program_id(1) * width
    total = tl.zeros([PARTS], tl.float64)
    for before in range(0, count, PARTS):
        part = before + tl.arange(0, PARTS)
        total += tl.load(out + first + part, mask=part < count, other=0.0)
    tl.store(out + unit, tl.sum(total, 0))


@triton.jit
def trial_kernel(out):
    """A kernel that only stores a number, which shows whether kernels can be launched."""
    tl.store(out, 1)


INTERPRETED = not isinstance(update_kernel, triton.JITFunction)
"""Whether Triton runs kernels in its interpreter, on the CPU: TRITON_INTERPRET=1 was set when it was imported."""
