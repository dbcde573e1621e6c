"""Completion of sums over split tensors: one all-reduce for each set of ranks that hold pieces of the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch import distributed as dist

from psilogic.tensors.buckets import Bucket

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def complete(
    buckets: Sequence[Bucket], sums: Mapping[int, Sequence[Tensor | None]], found_inf: Tensor | None
) -> tuple[dict[int, list[Any]], Tensor | None]:
    """Add the sums of the ranks that hold pieces of the same tensors.

    Args:
        buckets: the tensors of this step; split ones are in the same order on all their ranks.
        sums: for each split bucket, by its position, the sums over this rank's elements: first a vector over its
            tensors, then vectors over their units, or None.
        found_inf: above 0 if GradScaler found an overflow, one element; None without GradScaler.

    Returns:
        The sums over all elements, and the sum of `found_inf`: an overflow on one rank stops all.
    """
    by_ranks: dict[ProcessGroup, list[int]] = {}
    for i in sums:
        ranks = buckets[i].ranks
        assert ranks is not None
        by_ranks.setdefault(ranks, []).append(i)
    completed: dict[int, list[Any]] = {}
    for ranks, members in by_ranks.items():
        vectors = [] if found_inf is None else [found_inf.reshape(1)]
        vectors += [vector for i in members for vector in _placed(buckets[i], sums[i])]
        reduced = iter(_all_reduced(vectors, ranks))
        found_inf = None if found_inf is None else next(reduced)
        for i in members:
            completed[i] = [None if vector is None else next(reduced) for vector in sums[i]]
    return completed, found_inf


def _placed(bucket: Bucket, sums: Sequence[Tensor | None]) -> list[Tensor]:
    """The sums with the values of this rank's rows at their positions among all rows, and 0 elsewhere."""
    by_tensor, *by_unit = (vector for vector in sums if vector is not None)
    counts, pieces = bucket.local_units, [piece for piece in bucket.pieces if piece is not None]

    def placed(vector: Tensor) -> Tensor:
        parts = [
            F.pad(part, (piece.first_row, piece.places - piece.first_row - len(part)))
            if bucket.by_rows and len(piece.shape) > 1
            else part
            for part, piece in zip(vector.split(counts), pieces, strict=True)
        ]
        return torch.cat([x if piece.counted else torch.zeros_like(x) for x, piece in zip(parts, pieces, strict=True)])

    return [by_tensor, *map(placed, by_unit)]


def _all_reduced(vectors: list[Tensor], ranks: ProcessGroup) -> list[Tensor]:
    """Each vector's sum over the ranks, in a single all-reduce."""
    real = [torch.view_as_real(vector).flatten() if vector.is_complex() else vector for vector in vectors]
    buffer = torch.cat([vector.to(real[-1]) for vector in real])
    dist.all_reduce(buffer, group=ranks)
    parts = zip(vectors, buffer.split([len(vector) for vector in real]), strict=True)
    return [
        (torch.view_as_complex(part.view(-1, 2)) if vector.is_complex() else part).to(vector.device)
        for vector, part in parts
    ]
