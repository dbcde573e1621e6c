"""Sharded tensors: this rank's piece, its position in the whole tensor, and the ranks that hold the others.

DTensors (FSDP2, HSDP, tensor parallelism) contain how they are split. FSDP1 and DeepSpeed's ZeRO give an optimizer no
such information, and are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn import Parameter
from torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor


class Piece(NamedTuple):
    """The position of a rank's piece in the whole tensor."""

    shape: torch.Size  # shape of the whole tensor
    first_row: int  # slot of the piece's first row
    row_slots: int  # slots for rows on all ranks together; some are empty if rows do not divide evenly
    counted: bool = True  # False where another rank counts the same elements

    def broadcast(self, by_slot: Tensor, x: Tensor) -> Tensor:
        """Values of all slots for rows, shape (row_slots,), in a shape that broadcasts with the piece x."""
        if x.ndim > 1:
            by_slot = by_slot.narrow(0, self.first_row, len(x))
        return broadcast_rows(by_slot, x)


class Layout(NamedTuple):
    """What this rank has of a sharded tensor."""

    value: Tensor  # its part
    grad: Tensor  # the gradient of its part
    piece: Piece | None  # the position of the part; None for a whole tensor
    ranks: ProcessGroup | None  # the ranks that hold the other parts; None for a whole tensor


def broadcast_rows(by_row: Tensor, x: Tensor) -> Tensor:
    """One value for each row of x, or a single one, in a shape that broadcasts with x."""
    ones = (1,) * (x.ndim - 1)
    return by_row.view(by_row.shape[: x.ndim] + ones)


def local(x: Tensor) -> Tensor:
    """The part of a tensor on this rank."""
    part: Tensor = x.to_local() if is_dtensor(x) else x  # type: ignore[attr-defined]
    return part


def is_dtensor(x: Tensor) -> bool:
    """Whether x is a DTensor, without the import of their class, which takes seconds."""
    return type(x) not in (Tensor, Parameter) and hasattr(x, "placements")


def refuse_hidden(group: Mapping[str, Any]) -> None:
    """Refuse a group whose steps need the norms of tensors that a wrapper hides.

    FSDP1 gives an optimizer pieces of tensors, ZeRO-1 some of the tensors.

    Raises:
        RuntimeError: naming the wrapper, and what to use instead.
    """
    if any(hasattr(p, "_fsdp_flattened") for p in group["params"]):
        raise RuntimeError(
            "PsiLogic needs the norms of whole tensors, and the parameters of FullyShardedDataParallel (FSDP1) are "
            "pieces of a flat one; use torch.distributed.fsdp.fully_shard (FSDP2), whose parameters know their shards"
        )
    joins_tensors = group["chaos_scope"] != "tensor" or group["max_grad_norm"] is not None
    if joins_tensors and _is_called_by(sys.modules.get("torch.distributed.optim.zero_redundancy_optimizer")):
        raise RuntimeError(
            f"chaos_scope={group['chaos_scope']!r} with max_grad_norm={group['max_grad_norm']!r} needs the norms of "
            "all tensors, and ZeroRedundancyOptimizer gives PsiLogic only those of one rank; leave both at their "
            "defaults and call clip_grad_norm_ before the step, or use fully_shard (FSDP2) to split the state"
        )


def _is_called_by(module: ModuleType | None) -> bool:
    """Whether a function of the module has called the present one, directly or through others."""
    if module is None:
        return False
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals is vars(module):
            return True
        frame = frame.f_back
    return False


class Sharding:
    """One optimizer's information about the ranks that its tensors are split over."""

    def __init__(self) -> None:
        self._given: set[int] = set()
        self._given_shapes: set[torch.Size] = set()
        self._ranks: dict[tuple[int, ...], ProcessGroup] = {}

    def give(self, params: Sequence[Tensor]) -> None:
        """Remember the tensors that the optimizer was given, which a library may replace in its groups."""
        self._given.update(map(id, params))
        self._given_shapes.update(p.shape for p in params if not is_lazy(p))

    def layouts(self, params: Iterable[Tensor]) -> dict[int, Layout]:
        """The layout of every sharded tensor of this step, by its id.

        Raises:
            RuntimeError: a layout does not define which elements belong together.
        """
        special = [p for p in params if type(p) is not Parameter]
        self._refuse_partitions(special)
        # Also those without a gradient here: a rank that has one waits for the sums of all, in the same order.
        dtensors = [p for p in special if is_dtensor(p) and _takes_part(p)]
        split = [split_dims(p) for p in dtensors]
        reduced: dict[DeviceMesh, set[int]] = {}
        for p, dims in zip(dtensors, split, strict=True):
            reduced.setdefault(_mesh(p), set()).update(dims)
        layouts = {}
        for p, dims in zip(dtensors, split, strict=True):
            if p.grad is not None or dims:
                layouts[id(p)] = self._dtensor(p, dims, sorted(reduced[_mesh(p)]))
        return layouts

    def _refuse_partitions(self, params: Iterable[Tensor]) -> None:
        """Refuse what a library put into the groups in place of several tensors; copies keep the shapes of theirs."""
        for p in params:
            is_new_and_flat = type(p) is Tensor and p.ndim == 1 and id(p) not in self._given
            if is_new_and_flat and p.shape not in self._given_shapes:
                raise RuntimeError(
                    "PsiLogic cannot tell the tensors in a flat partition apart, which another library (DeepSpeed's "
                    "ZeRO, for example) has put into its groups; use fully_shard (FSDP2) or DistributedDataParallel "
                    "instead"
                )

    def _dtensor(self, p: Any, split: Sequence[int], reduced: Sequence[int]) -> Layout:
        """The layout of a DTensor that some dimensions of its mesh split; sums run over the dimensions `reduced`."""
        value = p.to_local()
        if p.grad is None:  # no rows
            value = value[:0]
            grad = value
        elif p.grad.placements == p.placements:
            grad = local(p.grad)
        else:
            grad = local(p.grad.redistribute(p.device_mesh, p.placements))
        if not split:
            return Layout(value, grad, piece=None, ranks=None)
        return Layout(value, grad, dtensor_piece(p, split, reduced), self._reduction(p.device_mesh, reduced))

    def _reduction(self, mesh: DeviceMesh, dims: Sequence[int]) -> ProcessGroup:
        """The ranks that differ from this one only in the given dimensions of the mesh."""
        if len(dims) == 1:
            return mesh.get_group(dims[0])
        coordinate = mesh.get_coordinate() or ()
        index = tuple(slice(None) if d in dims else here for d, here in enumerate(coordinate))
        ranks = tuple(mesh.mesh[index].flatten().tolist())
        if ranks not in self._ranks:
            group = None
            if len(ranks) == dist.get_world_size():
                group = dist.group.WORLD
            if group is None:
                group = dist.new_group(list(ranks), use_local_synchronization=True)
            self._ranks[ranks] = group
        return self._ranks[ranks]


def _takes_part(p: Any) -> bool:
    """Whether a DTensor takes part in the step: it has a gradient here, or may have one on another rank."""
    if p.grad is not None:
        return True
    return p.requires_grad and not any(placement.is_partial() for placement in p.placements)


def _mesh(p: Any) -> DeviceMesh:
    mesh: DeviceMesh = p.device_mesh
    return mesh


def split_dims(p: Any) -> list[int]:
    """The dimensions of the mesh that a DTensor is split over.

    Raises:
        RuntimeError: the ranks hold summands of the tensor.
    """
    if any(placement.is_partial() for placement in p.placements):
        raise RuntimeError(f"PsiLogic cannot update a parameter whose value is a pending sum: {p.placements}")
    split = []
    for d, (placement, size) in enumerate(zip(p.placements, p.device_mesh.shape, strict=True)):
        if size > 1 and not placement.is_replicate():
            split.append(d)
    return split


def dtensor_piece(p: DTensor, split: Sequence[int], reduced: Sequence[int]) -> Piece:
    """The position of a DTensor's local part, from the mesh dimensions that split it and that sums run over."""
    sizes = p.device_mesh.shape
    coordinate = p.device_mesh.get_coordinate() or ()
    placements: Sequence[Any] = p.placements
    parts = 1  # into which the rows are split
    index = 0  # of this rank's part
    for d in split:
        if placements[d].dim == 0:
            parts *= sizes[d]
            index = index * sizes[d] + coordinate[d]
    rows = -(-p.shape[0] // parts)  # the most of any rank, in any order of the splitting dimensions
    counted = all(d in split or coordinate[d] == 0 for d in reduced)
    return Piece(p.shape, first_row=index * rows, row_slots=parts * rows, counted=counted)
