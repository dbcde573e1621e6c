"""One all-reduce for each set of ranks that hold pieces of the same tensors: it completes their statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor
from torch import distributed as dist

from psilogic.buckets import Bucket
from psilogic.gradients import Statistics

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def complete(
    buckets: list[Bucket], statistics: dict[int, Statistics], found_inf: Tensor | None
) -> tuple[dict[int, Statistics], Tensor | None]:
    """Sum the statistics of split tensors over the ranks that hold their pieces.

    Args:
        buckets: the tensors of this step; those that are split come in the same order on all their ranks.
        statistics: the sums over this rank's elements, by the position of the bucket; split ones are among them.
        found_inf: above 0 where GradScaler found an overflow, one element; None without GradScaler.

    Returns:
        The sums over all elements, and the sum of `found_inf`: an overflow on one rank concerns all.
    """
    by_ranks: dict[ProcessGroup, list[int]] = {}
    for i, bucket in enumerate(buckets):
        if bucket.ranks is not None:
            by_ranks.setdefault(bucket.ranks, []).append(i)
    completed = dict(statistics)
    for ranks, members in by_ranks.items():
        vectors = [] if found_inf is None else [found_inf.reshape(1)]
        vectors += [vector for i in members for vector in _placed(buckets[i], statistics[i])]
        sums = iter(_all_reduced(vectors, ranks))
        found_inf = None if found_inf is None else next(sums)
        for i in members:
            present = [name for name, vector in statistics[i]._asdict().items() if vector is not None]
            completed[i] = statistics[i]._replace(**{name: next(sums) for name in present})
    return completed, found_inf


def _placed(bucket: Bucket, statistics: Statistics) -> list[Tensor]:
    """The statistics with the values of this rank's rows in their places among all rows, and 0 in the others."""
    numel, *by_unit = statistics
    counts, pieces = bucket.local_units, [piece for piece in bucket.pieces if piece is not None]

    def placed(vector: Tensor) -> Tensor:
        parts = [
            F.pad(part, (piece.first_row, piece.places - piece.first_row - len(part)))
            if bucket.by_rows and len(piece.shape) > 1
            else part
            for part, piece in zip(vector.split(counts), pieces, strict=True)
        ]
        return torch.cat([x if piece.counted else torch.zeros_like(x) for x, piece in zip(parts, pieces, strict=True)])

    return [numel, *(placed(vector) for vector in by_unit if vector is not None)]


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
