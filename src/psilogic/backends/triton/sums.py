"""The launch of the sums over the units of many tensors."""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from psilogic.backends.triton.launch import Launch, Variant, compiled_for
from psilogic.backends.triton.sum_kernels import complete_kernel, statistics_kernel
from psilogic.backends.triton.tables import address_table, sum_tables
from psilogic.step import BucketStep
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.memory import Sizes

COMPLETE = Variant(complete_kernel, (512,))


@cache
def statistics(dtype: torch.dtype, with_sums: bool) -> Variant:
    """The kernel of the sums; with those of gradients all is added in float64."""
    return Variant(statistics_kernel, (*compiled_for(dtype, wide=with_sums), with_sums))


class UnitSums(NamedTuple):
    """Sums over the units of N tensors, those of long rows in parts, and the launch that computes them."""

    launch: Launch
    # sums of |g|^2, then optionally of |theta|^2, then optionally of g (0 for tensors with at most one dimension), in
    # float64. Each has the shape (U,), or (U + parts,) if rows have parts, with 0 for such rows
    parts: Tensor
    of_gradients: Tensor  # the first of these sums
    all_gradients: Tensor  # memory for the sum of |g|^2 of all tensors, 0-dim
    with_params: bool  # whether the sums of |theta|^2 are there
    with_sums: bool  # whether the sums of g are there
    sizes: Sizes  # of the tensors
    records: Tensor  # the tensors' records as returned by `sum_tables`
    splits: Tensor  # the records of rows that have parts
    tables: DeviceTables  # the tables of these tensors

    @property
    def total(self) -> Tensor:
        """The sum of |g|^2 of all tensors, 0-dim, always in the same memory."""
        return torch.sum(self.of_gradients, 0, out=self.all_gradients)

    def by_unit(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """For each of the U units the sums of |g|^2, of g and of |theta|^2; the last two as requested, or None.

        The sums of long rows take one more launch; `total` is invalid afterwards.
        """
        grid = (len(self.splits) // 3, len(self.parts), 1)
        Launch(COMPLETE, grid, {"parts": self.parts, "splits": self.splits}, [self.parts.shape[1]])()
        rows = self.parts[:, : self.sizes.unit_count]
        sums = rows[-1] if self.with_sums else None
        param_squares = rows[1] if self.with_params else None
        return rows[0], sums, param_squares


def unit_sums_of(work: BucketStep) -> UnitSums:
    """The sums that the step of a bucket needs."""
    group = work.bucket.group
    addresses = address_table(work)
    first = work.tensors.grads[0]

    def of_plan() -> UnitSums:
        with_params = group["agc_clip"] > 0
        return unit_sums(first, addresses, work.sizes, with_params, group["grad_centralize"], work.bucket.cache.tables)

    sums = work.once("sums", of_plan)
    sums.launch.point(addresses=addresses)
    sums.launch()
    return sums


def unit_sums(
    first: Tensor, addresses: Tensor, sizes: Sizes, with_params: bool, with_sums: bool, tables: DeviceTables
) -> UnitSums:
    """Sums over the units of N tensors that `supports` accepts, by one launch, always added in the same order.

    With sums of g in float64, otherwise in float32 (float64 for float64 tensors).

    Args:
        first: one of the tensors, for device and dtype.
        addresses: those of the parameters, then of the gradients, then others or none; on the device.
        sizes: of the tensors and their units.
        with_params: whether to sum |theta|^2.
        with_sums: whether to sum g.
        tables: used for no other list of tensors.
    """
    device = first.device
    records, tensor_of_item, splits = tables.get("items", sizes, device, lambda: sum_tables(sizes))
    programs = len(tensor_of_item)
    width = sizes.unit_count
    if len(splits):
        width += programs
    columns = 1 + with_params
    parts = torch.empty(columns + with_sums, width, dtype=torch.float64, device=device)
    pointers: dict[str, Tensor | None] = {
        "parts": parts,
        "addresses": addresses,
        "records": records,
        "tensors": tensor_of_item,
    }
    numbers = [sizes.unit_count, width, len(sizes.numels)]
    launch = Launch(statistics(first.dtype, with_sums), (programs, columns, 1), pointers, numbers)
    return UnitSums(
        launch=launch,
        parts=parts,
        of_gradients=parts[0],
        all_gradients=parts.new_empty(()),
        with_params=with_params,
        with_sums=with_sums,
        sizes=sizes,
        records=records,
        splits=splits,
        tables=tables,
    )
