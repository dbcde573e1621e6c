"""The tables of Triton's launches: addresses of tensors, and records by which a program finds its part of the work.

Records are uploaded again when a size changes, addresses when a tensor has moved.
"""

from typing import Any

import torch
from torch import Tensor

from psilogic.backends.triton.sum_kernels import LONG, MIDDLE, ROWS, SEGMENT, SHORT, TILE
from psilogic.step import BucketStep, Tensors
from psilogic.tensors.device_tables import DeviceTables, Mailbox, host
from psilogic.tensors.memory import Sizes


class AddressTable:
    """The addresses of a bucket's tensors on the device, in the steps of a plan, in which only gradients move.

    Their new addresses are written over those of the step before, in the order of the stream to which the plan belongs.

    Args:
        work: the first step.
    """

    def __init__(self, work: BucketStep) -> None:
        self._addresses = work.addresses
        self._table = uploaded_addresses(work.bucket.cache.tables, work.addresses, work.bucket.device)
        self._of_grads: Mailbox | None = None  # for the part of the table that changes, once a gradient has moved

    def at(self, addresses: Any) -> Tensor:
        """The table with the addresses of a step: the same object as those of the step before where nothing moved."""
        if addresses is not self._addresses:
            count = len(addresses) // len(Tensors._fields)
            self.move_gradients(addresses[count : 2 * count].tobytes())
            self._addresses = addresses
        return self._table

    def move_gradients(self, addresses: bytes) -> Tensor:
        """The table with these addresses of the gradients, as 64-bit integers; from the second call on the same."""
        if self._of_grads is None:
            count = len(self._table) // len(Tensors._fields)
            self._table = self._table.clone()  # other steps use the one that was uploaded
            self._of_grads = Mailbox(self._table[count : 2 * count])
        self._of_grads.copy_(addresses)
        return self._table


def address_table(work: BucketStep) -> Tensor:
    """The addresses of a bucket's tensors on the device, uploaded again only if they are others than before."""
    known: AddressTable = work.once("addresses", lambda: AddressTable(work))
    return known.at(work.addresses)


def uploaded_addresses(tables: DeviceTables, addresses: Any, device: torch.device) -> Tensor:
    """The addresses of N tensors in several columns, column after column."""
    (table,) = tables.get("addresses", addresses, device, lambda: [host(addresses)], moves=True)
    return table


def unit_lengths(numels: Tensor, units: Tensor) -> tuple[Tensor, Tensor]:
    """Of each tensor's units the number of elements, 1 without units, and of parts in which they are summed."""
    lengths = torch.where(units > 0, numels // units.clamp(min=1), 1)
    segments = (lengths + SEGMENT.value - 1) // SEGMENT.value
    return lengths, torch.where(lengths > MIDDLE.value, segments, 1)


def chunk_tables(sizes: Sizes, chunk: int) -> list[Tensor]:
    """Records of the tensors (numel, first chunk, first unit, length of a unit), and the tensor of each chunk."""
    numels = host(sizes.numels)
    counts = host(sizes.units)
    chunks = (numels + chunk - 1) // chunk
    lengths, _ = unit_lengths(numels, counts)
    columns = [numels, _exclusive_sum(chunks), _exclusive_sum(counts), lengths.clamp(min=1)]
    records = torch.stack(columns, 1).flatten()
    tensor_of_chunk = host(range(len(numels))).repeat_interleave(chunks)
    return [records, tensor_of_chunk]


def sum_tables(sizes: Sizes) -> list[Tensor]:
    """Records of the tensors, the tensor of each program of the statistics, and records of rows with several programs.

    A tensor's record: units, length of a unit, programs for one unit, first program, first unit, whether it has sums.
    A row's record: its unit, the position of its first part in the output, the number of parts.
    """
    counts = host(sizes.units)
    lengths, segments = unit_lengths(host(sizes.numels), counts)
    items = _programs(counts, lengths, segments)
    first_item = _exclusive_sum(items)
    first_unit = _exclusive_sum(counts)
    records = torch.stack([counts, lengths, segments, first_item, first_unit, host(sizes.have_rows)], 1)
    tensor_of_item = host(range(len(counts))).repeat_interleave(items)

    rows_in_parts = torch.where(segments > 1, counts, 0)
    owner = host(range(len(counts))).repeat_interleave(rows_in_parts)
    row = host(range(len(owner))) - _exclusive_sum(rows_in_parts)[owner]
    first_part = sizes.unit_count + first_item[owner] + row * segments[owner]
    splits = torch.stack([first_unit[owner] + row, first_part, segments[owner]], 1)
    return [records.flatten(), tensor_of_item, splits.flatten()]


def _programs(counts: Tensor, lengths: Tensor, segments: Tensor) -> Tensor:
    """The number of programs of the statistics for each tensor."""
    longest = torch.where(lengths <= SHORT.value, SHORT.value, MIDDLE.value)
    rows = torch.where(lengths <= MIDDLE.value, TILE.value // longest, ROWS.value)
    rows = torch.where((lengths <= LONG.value) & (segments == 1), rows, 1)
    return (counts + rows - 1) // rows * segments


def _exclusive_sum(x: Tensor) -> Tensor:
    return x.cumsum(0) - x
