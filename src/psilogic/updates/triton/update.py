"""What the host does for Triton's kernels of the update and of the sums: tables, arguments, launches.

The update is bound by memory: in float32 it reads 16 bytes of each element and writes 12, once. One program takes one
chunk of one tensor; a map tells it of which. That map is uploaded again when a size has changed, the table of addresses
when an address has, which gradients' may in every step. Hyperparameters are arguments of the kernel, so that a schedule
compiles nothing.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from psilogic.tensors.memory import alike, ordinary
from psilogic.tensors.norms import Foreach
from psilogic.tensors.uploads import Uploads, host
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
from psilogic.updates.work import Step, Tensors

DTYPES = {
    torch.float64: tl.float64,
    torch.float32: tl.float32,
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
}
CHUNK_BYTES = 8192
"""What one program of the update takes of each array: enough that what it computes once is a small part of its work."""
PART, PART_BYTES = 1024, 4096
"""The most that it takes at once, in elements and bytes: as much as leaves registers for ten programs at a time."""
OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}


def _addresses(uploads: Uploads, name: str, columns: Sequence[Foreach]) -> Tensor:
    """The addresses of N tensors in each of some columns, tensor by tensor."""
    pointers = [x.data_ptr() for row in zip(*columns, strict=True) for x in row]
    return uploads.get(name, pointers, columns[0][0].device, lambda: [host(pointers)], moves=True)[0]


def _compiled_for(dtype: torch.dtype, wide: bool = False) -> dict[str, Any]:
    """What kernels are compiled for: the tensors' dtype and that of the arithmetic; and how."""
    accumulator = tl.float64 if wide or dtype == torch.float64 else tl.float32
    return {"DTYPE": DTYPES[dtype], "ACC": accumulator, "ITEMSIZE": dtype.itemsize, **OPTIONS}


def _exclusive_sum(x: Tensor) -> Tensor:
    return x.cumsum(0) - x


def _row_lengths(numels: Tensor, units: Tensor) -> Tensor:
    """The number of elements of each unit, shape (N,); 1 where a tensor has no unit."""
    return torch.where(units > 0, numels // units.clamp(min=1), 1)


def part_counts(numels: Tensor, units: Tensor) -> Tensor:
    """In how many parts each unit of a tensor is summed, shape (N,)."""
    lengths = _row_lengths(numels, units)
    return torch.where(lengths > MIDDLE.value, (lengths + SEGMENT.value - 1) // SEGMENT.value, 1)


def _chunks(numels: list[int], units: list[int], chunk: int) -> list[Tensor]:
    """Records of the tensors (numel, first chunk, first unit, length of a unit), and the tensor of each chunk."""
    sizes, counts = host(numels), host(units)
    chunks = (sizes + chunk - 1) // chunk
    records = [sizes, _exclusive_sum(chunks), _exclusive_sum(counts), _row_lengths(sizes, counts).clamp(min=1)]
    return [torch.stack(records, 1).flatten(), host(range(len(numels))).repeat_interleave(chunks)]


def _items(numels: list[int], units: list[int], centred: list[int]) -> list[Tensor]:
    """Records of the tensors, the tensor of each program of the statistics, and the rows that several share.

    Of a tensor: units, length of a unit, programs for one unit, first program, first unit, whether it has sums. Of a
    row that several programs share: its unit, the place of its first part in the output, the number of parts.
    """
    counts = host(units)
    lengths = _row_lengths(host(numels), counts)
    segments = part_counts(host(numels), counts)
    longest = torch.where(lengths <= SHORT.value, SHORT.value, MIDDLE.value)
    rows = torch.where(lengths <= MIDDLE.value, TILE.value // longest, ROWS.value)
    rows = torch.where((lengths <= LONG.value) & (segments == 1), rows, 1)
    items = (counts + rows - 1) // rows * segments
    first_item, first_unit = _exclusive_sum(items), _exclusive_sum(counts)
    records = torch.stack([counts, lengths, segments, first_item, first_unit, host(centred)], 1)
    tensors = host(range(len(numels))).repeat_interleave(items)

    shared = torch.where(segments > 1, counts, 0)
    owner = host(range(len(numels))).repeat_interleave(shared)
    row = host(range(len(owner))) - _exclusive_sum(shared)[owner]
    first_part = sum(units) + first_item[owner] + row * segments[owner]
    splits = torch.stack([first_unit[owner] + row, first_part, segments[owner]], 1)
    return [records.flatten(), tensors, splits.flatten()]


def supports(columns: Tensors, by_rows: bool) -> bool:
    """Whether the kernels can treat these tensors.

    They can when all are plain strided tensors of one real dtype on one CUDA device (or on the CPU, in Triton's
    interpreter); when those of a parameter lie in memory alike and without gaps; and when units, where a tensor has
    several, are rows that lie there one after the other.
    """
    every = [x for xs in columns for x in xs]
    if not every or every[0].dtype not in DTYPES or every[0].is_cuda == INTERPRETED:
        return False
    if len({x.dtype for x in every}) > 1 or len({x.get_device() for x in every}) > 1:
        return False
    return ordinary(columns) and alike(columns, by_rows)


def update_(
    tensors: Tensors,
    step: Step,
    mean: Tensor | None,
    scale: Tensor | None,
    units: list[int],
    uploads: Uploads,
    found_inf: Tensor | None = None,
) -> None:
    """One step for N tensors that `supports` accepts, in place: mean and scale, decay, quantum decay, Adam.

    Args:
        tensors: the tensors, with gradients as they are.
        step: what to do to them; a tensor lr lies on the device.
        mean: what the gradients lose, unit by unit, shape (U,); None for 0.
        scale: what they are multiplied by after that, shape (U,); None for 1.
        units: the number of units of each tensor: 1 for the whole tensor, else its rows of dimension 0.
        uploads: those of these tensors; no other list of tensors should use it.
        found_inf: above 0 where nothing may change, one element; None for 0.

    Vectors lie on the device, in float64 where possible.
    """
    params, _, exp_avgs, exp_avg_sqs = tensors
    lr, betas = step.lr, step.betas
    first = params[0]
    chunk, part = CHUNK_BYTES // first.dtype.itemsize, min(PART, PART_BYTES // first.dtype.itemsize)
    numels = [p.numel() for p in params]
    records, owners = uploads.get(
        "chunks", [chunk, *numels, *units], first.device, lambda: _chunks(numels, units, chunk)
    )
    addresses = _addresses(uploads, "update", tensors)
    if len(owners) == 0:
        return
    vectors = [None if x is None else x.contiguous() for x in (step.t, step.decay, step.quantum_rate, mean, scale)]
    lr_pointer, number = (lr, 0.0) if isinstance(lr, Tensor) else (None, lr)
    logs = [math.log(beta) if beta > 0 else -math.inf for beta in betas]
    by_rows = (scale is not None or mean is not None) and any(n != 1 for n in units)
    with torch.cuda.device_of(first):
        update_kernel[(len(owners),)](
            addresses, records, owners, *vectors, lr_pointer, found_inf, number, *betas, *logs, step.eps,
            BY_ROWS=by_rows, CHUNK=chunk, ALIGNED_PART=part, PART=part // 2, **_compiled_for(first.dtype),
        )  # fmt: skip
    torch.autograd.graph.increment_version([*params, *exp_avgs, *exp_avg_sqs])


class UnitSums(NamedTuple):
    """Sums over the units of N tensors, those of long rows in parts.

    Attributes:
        parts: first of |g|^2, then of |theta|^2 where wanted, then of g where wanted, 0 for tensors with at most one
            dimension; in float64, each of shape (U,), or (U + parts,) where rows have parts: the sum of their row is 0.
        numels: the number of elements of each tensor.
        units: the number of units of each tensor.
        records: what the kernels know of each tensor, as `_items` says.
        splits: the rows that have parts.
        uploads: those of these tensors.
    """

    parts: Tensor
    numels: list[int]
    units: list[int]
    records: Tensor
    splits: Tensor
    uploads: Uploads

    @property
    def total(self) -> Tensor:
        """The sum of |g|^2 of all tensors, 0-dim."""
        return self.parts[0].sum()

    def complete(self) -> Tensor:
        """The sums of all units, those of long rows in one more launch; `total` is then without meaning."""
        if len(self.splits):
            with torch.cuda.device_of(self.parts):
                complete_kernel[(len(self.splits) // 3, len(self.parts))](
                    self.parts, self.splits, self.parts.shape[1], PARTS=512, **OPTIONS
                )
        return self.parts[:, : sum(self.units)]


def unit_sums(grads: Foreach, params: Foreach | None, units: list[int], with_sums: bool, uploads: Uploads) -> UnitSums:
    """Sums over the units of N tensors that `supports` accepts, in one launch.

    With sums of g all is added in float64, else in float32 (float64 for float64 tensors) by each program. The order is
    always the same.

    Args:
        grads: the gradients.
        params: the parameters, when their squares are wanted too.
        units: the number of units of each tensor: 1 for the whole tensor, else its rows of dimension 0.
        with_sums: whether the sums of the gradients are wanted too.
        uploads: those of these tensors; no other list of tensors should use it.
    """
    first = grads[0]
    columns = (grads,) if params is None else (grads, params)
    numels, centred = [g.numel() for g in grads], [int(g.ndim > 1) for g in grads]
    records, tensors, splits = uploads.get(
        "items", [*numels, *units, *centred], first.device, lambda: _items(numels, units, centred)
    )
    addresses = _addresses(uploads, "statistics", columns)
    count = sum(units)
    width = count + (len(tensors) if len(splits) else 0)
    out = torch.empty(len(columns) + with_sums, width, dtype=torch.float64, device=first.device)
    if len(tensors):
        with torch.cuda.device_of(first):
            statistics_kernel[(len(tensors), len(columns))](
                out, addresses, records, tensors, count, width,
                WITH_SUMS=with_sums, **_compiled_for(first.dtype, wide=with_sums),
            )  # fmt: skip
    return UnitSums(out, numels, units, records, splits, uploads)


def unit_statistics(
    grads: Foreach, params: Foreach | None, units: list[int], with_sums: bool, uploads: Uploads
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Of each of the U units the sums of |g|^2, of g and of |theta|^2, the last two where `unit_sums` forms them."""
    rows = unit_sums(grads, params, units, with_sums, uploads).complete()
    return rows[0], rows[-1] if with_sums else None, None if params is None else rows[1]
