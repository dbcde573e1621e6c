"""The launch of the sums over the units of many tensors."""

from typing import NamedTuple

import torch
from torch import Tensor

from psilogic.backends.triton.launch import OPTIONS
from psilogic.backends.triton.tables import sum_tables, uploaded_addresses
from psilogic.backends.triton.update import compiled_for
from psilogic.backends.triton.update_kernels import complete_kernel, statistics_kernel
from psilogic.step import BucketStep
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.norms import TensorList


class UnitSums(NamedTuple):
    """Sums over the units of N tensors, those of long rows in parts."""

    # sums of |g|^2, then optionally of |theta|^2, then optionally of g (0 for tensors with at most one dimension), in
    # float64. Each has the shape (U,), or (U + parts,) if rows have parts, with 0 for such rows
    parts: Tensor
    with_params: bool  # whether the sums of |theta|^2 are there
    with_sums: bool  # whether the sums of g are there
    numels: list[int]  # the number of elements of each tensor
    units: list[int]  # the number of units of each tensor
    records: Tensor  # the tensors' records as returned by `sum_tables`
    splits: Tensor  # the records of rows that have parts
    tables: DeviceTables  # the tables of these tensors

    @property
    def total(self) -> Tensor:
        """The sum of |g|^2 of all tensors, 0-dim."""
        return self.parts[0].sum()

    def by_unit(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """For each of the U units the sums of |g|^2, of g and of |theta|^2; the last two as requested, or None.

        The sums of long rows take one more launch; `total` is invalid afterwards.
        """
        if len(self.splits):
            grid = (len(self.splits) // 3, len(self.parts))
            with torch.cuda.device_of(self.parts):
                complete_kernel[grid](self.parts, self.splits, self.parts.shape[1], PARTS=512, **OPTIONS)
        rows = self.parts[:, : sum(self.units)]
        sums = rows[-1] if self.with_sums else None
        param_squares = rows[1] if self.with_params else None
        return rows[0], sums, param_squares


def unit_sums_of(work: BucketStep) -> UnitSums:
    """The sums that the step of a bucket needs."""
    bucket = work.bucket
    params = work.tensors.params if bucket.group["agc_clip"] > 0 else None
    return unit_sums(work.tensors.grads, params, bucket.units, bucket.group["grad_centralize"], bucket.cache.tables)


def unit_sums(
    grads: TensorList, params: TensorList | None, units: list[int], with_sums: bool, tables: DeviceTables
) -> UnitSums:
    """Sums over the units of N tensors that `supports` accepts, in one launch, always added in the same order.

    With sums of g in float64, otherwise in float32 (float64 for float64 tensors). Arguments as for
    `cpu.kernels.unit_statistics`. No other list of tensors should use the same tables.
    """
    first = grads[0]
    columns = [grads] if params is None else [grads, params]
    numels = [g.numel() for g in grads]
    centered = [int(g.ndim > 1) for g in grads]
    key = [*numels, *units, *centered]
    records, tensor_of_item, splits = tables.get(
        "items", key, first.device, lambda: sum_tables(numels, units, centered)
    )
    addresses = uploaded_addresses(tables, "statistics", columns)
    count = sum(units)
    programs = len(tensor_of_item)
    width = count + programs if len(splits) else count
    rows = len(columns) + int(with_sums)
    out = torch.empty(rows, width, dtype=torch.float64, device=first.device)
    if programs:
        with torch.cuda.device_of(first):
            statistics_kernel[(programs, len(columns))](
                out, addresses, records, tensor_of_item, count, width,
                WITH_SUMS=with_sums, **compiled_for(first.dtype, wide=with_sums),
            )  # fmt: skip
    return UnitSums(
        parts=out,
        with_params=params is not None,
        with_sums=with_sums,
        numels=numels,
        units=units,
        records=records,
        splits=splits,
        tables=tables,
    )
