"""The sums over the ranks that hold pieces of the same tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch import distributed as dist

from psilogic.tensors.buckets import Bucket
from psilogic.tensors.sharding import Piece

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def complete(
    buckets: Sequence[Bucket], sums: Mapping[int, Sequence[Tensor | None]], found_inf: Tensor | None
) -> tuple[dict[int, list[Any]], Tensor | None]:
    """Add the sums of the ranks that hold pieces of the same tensors, which are in the same order on all of them.

    For each split bucket, by its position, the sums are a vector over its tensors, then vectors over their units, or
    None. The sum of GradScaler's `found_inf` is returned too: an overflow on one rank stops all.
    """
    by_ranks: dict[Any, list[int]] = {}
    for i in sums:
        by_ranks.setdefault(buckets[i].ranks, []).append(i)
    completed: dict[int, list[Any]] = {}
    for ranks, members in by_ranks.items():
        vectors: list[Tensor] = []
        if found_inf is not None:
            vectors.append(found_inf.reshape(1))
        for i in members:
            vectors += _placed(buckets[i], sums[i])
        reduced = iter(_all_reduced(vectors, ranks))
        if found_inf is not None:
            found_inf = next(reduced)
        for i in members:
            completed[i] = _next_for_each(sums[i], reduced)
    return completed, found_inf


def _next_for_each(sums: Sequence[Tensor | None], reduced: Iterator[Tensor]) -> list[Tensor | None]:
    """The reduced vectors in the places of the given ones, and None where none was given."""
    completed: list[Tensor | None] = []
    for vector in sums:
        if vector is None:
            completed.append(None)
        else:
            completed.append(next(reduced))
    return completed


def _placed(bucket: Bucket, sums: Sequence[Tensor | None]) -> list[Tensor]:
    """The sums with the values of this rank's rows in their slots among those of all rows, and 0 elsewhere."""
    pieces = [piece for piece in bucket.pieces if piece is not None]
    by_tensor, *by_unit = (vector for vector in sums if vector is not None)
    placed = [by_tensor]
    for vector in by_unit:
        parts = vector.split(bucket.local_units)
        slots = [_in_slots(part, piece, bucket.by_rows) for part, piece in zip(parts, pieces, strict=True)]
        placed.append(torch.cat(slots))
    return placed


def _in_slots(by_unit: Tensor, piece: Piece, by_rows: bool) -> Tensor:
    """The values of one tensor's local units among the slots of all its units; 0 where another rank counts them."""
    if by_rows and len(piece.shape) > 1:
        slots_after = piece.row_slots - piece.first_row - len(by_unit)
        by_unit = F.pad(by_unit, (piece.first_row, slots_after))
    return by_unit if piece.counted else torch.zeros_like(by_unit)


def _all_reduced(vectors: list[Tensor], ranks: ProcessGroup) -> list[Tensor]:
    """Each vector's sum over the ranks, in a single all-reduce: where they have a backend, as NCCL on a GPU only."""
    real: list[Tensor] = []
    for vector in vectors:
        if vector.is_complex():
            vector = torch.view_as_real(vector).flatten()
        real.append(vector)
    buffer = torch.cat([x.to(real[-1]) for x in real])
    devices = [device.type for device in getattr(ranks, "_device_types", ())]
    if devices and buffer.device.type not in devices:  # with CPU offload
        buffer = buffer.to(devices[0])
    dist.all_reduce(buffer, group=ranks)
    parts = buffer.split(list(map(len, real)))
    return [_as_before(part, vector) for part, vector in zip(parts, vectors, strict=True)]


def _as_before(part: Tensor, vector: Tensor) -> Tensor:
    """A part of the reduced buffer as the vector whose sum it is: complex, and on its device."""
    if vector.is_complex():
        part = torch.view_as_complex(part.view(-1, 2))
    return part.to(vector.device)
