"""Triton's kernels for the sums over rows or parts of rows of many tensors, and for the sums of such sums.

With sums of gradients all is added in float64, so that a row of equal elements minus its mean is exactly zero.
"""

# Triton has no annotations, and its kernels are no Python functions that could have any.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False

import triton
import triton.language as tl

from psilogic.backends.triton.update_kernels import WORD, aligned_pointer, typed_pointer

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
    x = tl.load(typed_pointer(address, DTYPE) + first * length + offsets, mask=inside, other=0.0).to(ACC)
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
        squares, sums = _sum_columns(aligned_pointer(address, DTYPE), rows, columns, count, size, ACC)
    else:
        squares, sums = _sum_columns(typed_pointer(address, DTYPE), rows, columns, count, size, ACC)
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
    do_not_specialize=["count", "width", "tensor_count"],
    do_not_specialize_on_alignment=["out", "addresses", "records", "tensors"],
)
def statistics_kernel(
    out, addresses, records, tensors, count: tl.int64, width: tl.int64, tensor_count: tl.int64,
    DTYPE: tl.constexpr, ACC: tl.constexpr, ITEMSIZE: tl.constexpr, WITH_SUMS: tl.constexpr,
):  # fmt: skip
    """The sums of a tile of rows, or of a part of one row: of gradients, and of parameters in the second grid axis.

    The addresses are those of all parameters, then those of all gradients.
    """
    program = tl.program_id(0)
    i = tl.load(tensors + program)
    address = tl.load(addresses + (1 - tl.program_id(1)) * tensor_count + i)
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
            squares, sums = _sum_part(aligned_pointer(address, DTYPE), size // WORD * WORD, ACC)
        else:
            squares, sums = _sum_part(typed_pointer(address, DTYPE), size, ACC)
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
