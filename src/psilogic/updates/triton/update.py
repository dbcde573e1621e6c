"""Launches of Triton's kernels of the update and of the sums: their tables and arguments.

The update is bound by memory: in float32 it reads 16 bytes of each element and writes 12, once. One program updates one
chunk of one tensor, which it finds in a table. That table is uploaded again when a size changes; the table of addresses
when an address changes, which gradients' may in every step. Hyperparameters are arguments of the kernel, so that a
schedule does not compile anything.
"""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from psilogic.decision import Step
from psilogic.tensors.device_tables import DeviceTables, host
from psilogic.tensors.memory import addresses, uniform
from psilogic.tensors.norms import Foreach
from psilogic.updates.triton.update_kernels import (
    INTERPRETED,
    LONG,
    MIDDLE,
    ROWS,
    SEGMENT,
    SHORT,
    TILE,
    complete_kernel,
    statistics_kernel,
    update_kernel,
)
from psilogic.updates.types import Tensors

DTYPES = {torch.float64: tl.float64, torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
CHUNK_BYTES = 8192
"""Bytes of each array per program: large enough that computations once per program are a small part of its work."""
PART, PART_BYTES = 1024, 4096
"""The largest part at once, in elements and bytes: small enough that ten programs share the registers."""
OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}


def _addresses(tables: DeviceTables, name: str, columns: Sequence[Foreach]) -> Tensor:
    """The addresses of N tensors in several columns, tensor by tensor."""
    pointers = addresses(list(chain.from_iterable(zip(*columns, strict=True))))
    return tables.get(name, pointers, columns[0][0].device, lambda: [host(pointers)], moves=True)[0]


def _compiled_for(dtype: torch.dtype, wide: bool = False) -> dict[str, Any]:
    """Compile-time arguments of kernels: the tensors' dtype, the dtype of the arithmetic, and options."""
    accumulator = tl.float64 if wide or dtype == torch.float64 else tl.float32
    return {"DTYPE": DTYPES[dtype], "ACC": accumulator, "ITEMSIZE": dtype.itemsize, **OPTIONS}


def _exclusive_sum(x: Tensor) -> Tensor:
    return x.cumsum(0) - x


def unit_lengths(numels: Tensor, units: Tensor) -> tuple[Tensor, Tensor]:
    """Of each tensor's units the number of elements, 1 without units, and of parts in which they are summed."""
    lengths = torch.where(units > 0, numels // units.clamp(min=1), 1)
    return lengths, torch.where(lengths > MIDDLE.value, (lengths + SEGMENT.value - 1) // SEGMENT.value, 1)


def _chunks(numels: list[int], units: list[int], chunk: int) -> list[Tensor]:
    """Records of the tensors (numel, first chunk, first unit, length of a unit), and the tensor of each chunk."""
    sizes, counts = host(numels), host(units)
    chunks = (sizes + chunk - 1) // chunk
    records = [sizes, _exclusive_sum(chunks), _exclusive_sum(counts), unit_lengths(sizes, counts)[0].clamp(min=1)]
    return [torch.stack(records, 1).flatten(), host(range(len(numels))).repeat_interleave(chunks)]


def _items(numels: list[int], units: list[int], centered: list[int]) -> list[Tensor]:
    """Records of the tensors, the tensor of each program of the statistics, and records of rows with several programs.

    A tensor's record: units, length of a unit, programs for one unit, first program, first unit, whether it has sums.
    A row's record: its unit, the position of its first part in the output, the number of parts.
    """
    counts = host(units)
    lengths, segments = unit_lengths(host(numels), counts)
    longest = torch.where(lengths <= SHORT.value, SHORT.value, MIDDLE.value)
    rows = torch.where(lengths <= MIDDLE.value, TILE.value // longest, ROWS.value)
    rows = torch.where((lengths <= LONG.value) & (segments == 1), rows, 1)
    items = (counts + rows - 1) // rows * segments
    first_item, first_unit = _exclusive_sum(items), _exclusive_sum(counts)
    records = torch.stack([counts, lengths, segments, first_item, first_unit, host(centered)], 1)
    tensors = host(range(len(numels))).repeat_interleave(items)

    shared = torch.where(segments > 1, counts, 0)
    owner = host(range(len(numels))).repeat_interleave(shared)
    row = host(range(len(owner))) - _exclusive_sum(shared)[owner]
    first_part = sum(units) + first_item[owner] + row * segments[owner]
    splits = torch.stack([first_unit[owner] + row, first_part, segments[owner]], 1)
    return [records.flatten(), tensors, splits.flatten()]


def supports(columns: Tensors, by_rows: bool) -> bool:
    """Whether the kernels can update these tensors: on one CUDA device, or on the CPU in Triton's interpreter."""
    every = [x for xs in columns for x in xs]
    if not every or every[0].is_cuda == INTERPRETED or len({x.get_device() for x in every}) > 1:
        return False
    return uniform(DTYPES, columns, by_rows)


def update_(
    tensors: Tensors,
    step: Step,
    mean: Tensor | None,
    scale: Tensor | None,
    units: list[int],
    tables: DeviceTables,
    found_inf: Tensor | None = None,
) -> None:
    """One step for N tensors that `supports` accepts, in place: mean and scale, decay, quantum decay, Adam.

    Arguments as for `native.kernels.update_`, with vectors and a tensor lr on the device, in float64 if possible. No
    other list of tensors should use the same tables. Nothing changes if `found_inf`, one element or None, is above 0.
    """
    params, _, exp_avgs, exp_avg_sqs = tensors
    lr, betas = step.lr, (step.beta1, step.beta2)
    first = params[0]
    chunk, part = CHUNK_BYTES // first.dtype.itemsize, min(PART, PART_BYTES // first.dtype.itemsize)
    numels = [p.numel() for p in params]
    key = [chunk, *numels, *units]
    records, owners = tables.get("chunks", key, first.device, lambda: _chunks(numels, units, chunk))
    places = _addresses(tables, "update", tensors)
    if len(owners) == 0:
        return
    vectors = [None if x is None else x.contiguous() for x in (step.t, step.decay, step.quantum_rate, mean, scale)]
    lr_pointer, number = (lr, 0.0) if isinstance(lr, Tensor) else (None, lr)
    lr_stride = int(isinstance(lr, Tensor) and lr.numel() > 1)
    logs = [math.log(beta) if beta > 0 else -math.inf for beta in betas]
    by_rows = (scale is not None or mean is not None) and any(n != 1 for n in units)
    with torch.cuda.device_of(first):
        update_kernel[(len(owners),)](
            places, records, owners, *vectors, lr_pointer, found_inf, lr_stride, number, *betas, *logs, step.eps,
            BY_ROWS=by_rows, CHUNK=chunk, ALIGNED_PART=part, PART=part // 2, **_compiled_for(first.dtype),
        )  # fmt: skip
    torch.autograd.graph.increment_version([*params, *exp_avgs, *exp_avg_sqs])


class UnitSums(NamedTuple):
    """Sums over the units of N tensors, those of long rows in parts."""

    # sums of |g|^2, then optionally of |theta|^2, then optionally of g (0 for tensors with at most one dimension), in
    # float64. Each has the shape (U,), or (U + parts,) if rows have parts, with 0 for such rows
    parts: Tensor
    numels: list[int]  # the number of elements of each tensor
    units: list[int]  # the number of units of each tensor
    records: Tensor  # the tensors' records as returned by `_items`
    splits: Tensor  # the records of rows that have parts
    tables: DeviceTables  # the tables of these tensors

    @property
    def total(self) -> Tensor:
        """The sum of |g|^2 of all tensors, 0-dim."""
        return self.parts[0].sum()

    def complete(self) -> Tensor:
        """The sums of all units, those of long rows by one more launch; `total` is invalid afterwards."""
        if len(self.splits):
            with torch.cuda.device_of(self.parts):
                complete_kernel[(len(self.splits) // 3, len(self.parts))](
                    self.parts, self.splits, self.parts.shape[1], PARTS=512, **OPTIONS
                )
        return self.parts[:, : sum(self.units)]


def unit_sums(
    grads: Foreach, params: Foreach | None, units: list[int], with_sums: bool, tables: DeviceTables
) -> UnitSums:
    """Sums over the units of N tensors that `supports` accepts, in one launch, always added in the same order.

    With sums of g in float64, otherwise in float32 (float64 for float64 tensors). Arguments as for
    `native.kernels.unit_statistics`. No other list of tensors should use the same tables.
    """
    first = grads[0]
    columns = (grads,) if params is None else (grads, params)
    numels, centered = [g.numel() for g in grads], [int(g.ndim > 1) for g in grads]
    key = [*numels, *units, *centered]
    records, tensors, splits = tables.get("items", key, first.device, lambda: _items(numels, units, centered))
    places = _addresses(tables, "statistics", columns)
    count = sum(units)
    width = count + (len(tensors) if len(splits) else 0)
    out = torch.empty(len(columns) + with_sums, width, dtype=torch.float64, device=first.device)
    if len(tensors):
        with torch.cuda.device_of(first):
            statistics_kernel[(len(tensors), len(columns))](
                out, places, records, tensors, count, width,
                WITH_SUMS=with_sums, **_compiled_for(first.dtype, wide=with_sums),
            )  # fmt: skip
    return UnitSums(out, numels, units, records, splits, tables)


def unit_statistics(
    grads: Foreach, params: Foreach | None, units: list[int], with_sums: bool, tables: DeviceTables
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """For each of the U units the sums of |g|^2, of g and of |theta|^2; the last two as requested, or None."""
    rows = unit_sums(grads, params, units, with_sums, tables).complete()
    return rows[0], rows[-1] if with_sums else None, None if params is None else rows[1]
