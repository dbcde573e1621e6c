"""Sharded tensors: the position of this rank's piece, and the sums over the ranks that hold the other pieces.

DTensors (FSDP2, HSDP, tensor parallelism) contain how they are split. FSDP1 and ZeRO give an optimizer no such
information, and are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch import distributed as dist
from torch.nn import Parameter
from torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

    from psilogic.tensors.buckets import Bucket


class Piece(NamedTuple):
    """The position of a rank's piece in the whole tensor."""

    shape: torch.Size  # shape of the whole tensor
    first_row: int  # place of the piece's first row
    places: int  # places for rows on all ranks together; some are empty if rows do not divide evenly
    counted: bool = True  # False where another rank counts the same elements

    def spread(self, by_row: Tensor, x: Tensor) -> Tensor:
        """Values of all places for rows, shape (places,), in a shape that broadcasts with the piece."""
        return spread(by_row if x.ndim <= 1 else by_row.narrow(0, self.first_row, len(x)), x)


Layout = tuple[Tensor, Tensor, Piece | None, "ProcessGroup | None"]
"""The part of a sharded tensor on this rank, its gradient, its position and the ranks; None for a whole tensor."""


def spread(by_row: Tensor, x: Tensor) -> Tensor:
    """One value for each row of x, or a single one, in a shape that broadcasts with x."""
    return by_row.view(by_row.shape[: x.ndim] + (1,) * (x.ndim - 1))


def local(x: Tensor) -> Tensor:
    """The part of a tensor on this rank."""
    part: Tensor = x.to_local() if is_dtensor(x) else x  # type: ignore[attr-defined]
    return part


def is_dtensor(x: Tensor) -> bool:
    """Whether x is a DTensor, without the import of their class, which takes seconds."""
    return type(x) not in (Tensor, Parameter) and hasattr(x, "placements")


def refuse_hidden(params: Iterable[Tensor]) -> None:
    """Refuse an optimizer that gets parts of tensors without a word about the rest: of FSDP1, or made by ZeRO-1.

    Raises:
        RuntimeError: naming the wrapper, and what to use instead.
    """
    if any(hasattr(p, "_fsdp_flattened") for p in params):
        raise RuntimeError(
            "PsiLogic needs the norms of whole tensors, and the parameters of FullyShardedDataParallel (FSDP1) are "
            "pieces of a flat one; use torch.distributed.fsdp.fully_shard (FSDP2), whose parameters know their shards"
        )
    zero, frame = sys.modules.get("torch.distributed.optim.zero_redundancy_optimizer"), sys._getframe()
    while zero and frame is not None:
        if frame.f_globals is vars(zero):
            raise RuntimeError(
                "PsiLogic pools norms over all tensors, and ZeroRedundancyOptimizer gives it only those of one rank; "
                "use DistributedDataParallel with a plain PsiLogic, or fully_shard (FSDP2) to split its state"
            )
        frame = frame.f_back  # type: ignore[assignment]


class Sharding:
    """One optimizer's information about the ranks that its tensors are split over."""

    def __init__(self) -> None:
        self._given: set[int] = set()
        self._given_shapes: set[torch.Size] = set()
        self._ranks: dict[tuple[int, ...], ProcessGroup] = {}

    def __getstate__(self) -> None:
        """Nothing: what it remembers is found again in another process."""

    def give(self, params: Iterable[Tensor]) -> None:
        """Remember the tensors that the optimizer was given, which a library may replace in its groups."""
        for p in params:
            self._given.add(id(p))
            if not is_lazy(p):
                self._given_shapes.add(p.shape)

    def layouts(self, params: Iterable[Tensor]) -> dict[int, Layout]:
        """The layout of every sharded tensor of this step, by its id.

        Raises:
            RuntimeError: a layout does not define which elements belong together.
        """
        special = [p for p in params if type(p) is not Parameter]
        # A library puts its partition into the groups in place of several tensors; copies keep the shapes of theirs.
        flat = [p for p in special if type(p) is Tensor and p.ndim == 1 and id(p) not in self._given]
        if any(p.shape not in self._given_shapes for p in flat):
            raise RuntimeError(
                "PsiLogic cannot tell the tensors in a flat partition apart, which another library (DeepSpeed's "
                "ZeRO, for example) has put into its groups; use fully_shard (FSDP2) or DistributedDataParallel instead"
            )
        # Also those without a gradient here: a rank that has one waits for the sums of all, in the same order.
        of_meshes: list[Any] = [p for p in special if is_dtensor(p)]
        waits = (p.requires_grad and not any(x.is_partial() for x in p.placements) for p in of_meshes)
        dtensors = [p for p, waiting in zip(of_meshes, waits, strict=True) if waiting or p.grad is not None]
        split = [split_dims(p) for p in dtensors]
        reduced: dict[DeviceMesh, set[int]] = {}
        for p, dims in zip(dtensors, split, strict=True):
            reduced.setdefault(p.device_mesh, set()).update(dims)
        return {
            id(p): self._dtensor(p, dims, sorted(reduced[p.device_mesh]))
            for p, dims in zip(dtensors, split, strict=True)
            if p.grad is not None or dims
        }

    def _dtensor(self, p: DTensor, split: Sequence[int], reduced: Sequence[int]) -> Layout:
        """The layout of a DTensor that some dimensions of its mesh split; sums run over the dimensions `reduced`."""
        value, grad = p.to_local(), p.grad
        if grad is None:  # no rows
            value = part = value[:0]
        else:
            of_grad: Any = grad
            same = of_grad.placements == p.placements
            part = local(of_grad if same else of_grad.redistribute(p.device_mesh, p.placements))
        if not split:
            return value, part, None, None
        return value, part, dtensor_piece(p, split, reduced), self._reduction(p.device_mesh, reduced)

    def _reduction(self, mesh: DeviceMesh, dims: Sequence[int]) -> ProcessGroup:
        """The ranks that differ from this one only in the given dimensions of the mesh."""
        if len(dims) == 1:
            return mesh.get_group(dims[0])
        index = [slice(None) if d in dims else place for d, place in enumerate(mesh.get_coordinate() or ())]
        ranks = tuple(mesh.mesh[tuple(index)].flatten().tolist())
        if ranks not in self._ranks:
            everyone = dist.group.WORLD if len(ranks) == dist.get_world_size() else None
            self._ranks[ranks] = everyone or dist.new_group(list(ranks), use_local_synchronization=True)
        return self._ranks[ranks]


def split_dims(p: Any) -> list[int]:
    """The dimensions of the mesh that a DTensor is split over.

    Raises:
        RuntimeError: the ranks hold summands of the tensor.
    """
    if any(placement.is_partial() for placement in p.placements):
        raise RuntimeError(f"PsiLogic cannot update a parameter whose value is a pending sum: {p.placements}")
    sizes = zip(p.placements, p.device_mesh.shape, strict=True)
    return [d for d, (placement, size) in enumerate(sizes) if not placement.is_replicate() and size > 1]


def dtensor_piece(p: DTensor, split: Sequence[int], reduced: Sequence[int]) -> Piece:
    """The position of a DTensor's local part, from the mesh dimensions that split it and that sums run over."""
    sizes, coordinate = p.device_mesh.shape, p.device_mesh.get_coordinate() or ()
    placements: Sequence[Any] = p.placements
    share, index = 1, 0
    for d in split:
        if placements[d].dim == 0:
            share, index = share * sizes[d], index * sizes[d] + coordinate[d]
    rows = -(-p.shape[0] // share)  # the most of any rank, in any order of the splitting dimensions
    counted = all(d in split or coordinate[d] == 0 for d in reduced)
    return Piece(p.shape, first_row=index * rows, places=share * rows, counted=counted)


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
    """Each vector's sum over the ranks, in a single all-reduce: where they have a backend, as NCCL on a GPU only."""
    real = [torch.view_as_real(vector).flatten() if vector.is_complex() else vector for vector in vectors]
    buffer = torch.cat([vector.to(real[-1]) for vector in real])
    devices = [device.type for device in getattr(ranks, "_device_types", ())]
    if devices and buffer.device.type not in devices:  # with CPU offload
        buffer = buffer.to(devices[0])
    dist.all_reduce(buffer, group=ranks)
    parts = zip(vectors, buffer.split([len(vector) for vector in real]), strict=True)
    return [
        (torch.view_as_complex(part.view(-1, 2)) if vector.is_complex() else part).to(vector.device)
        for vector, part in parts
    ]
