"""Sharded tensors: the position of this rank's piece, and the ranks that hold the other pieces.

DTensors (FSDP2, HSDP, tensor parallelism) contain how they are split. FSDP1 and ZeRO-1 give an optimizer no such
information: the objects of these libraries that have it are searched once among all objects of the process.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch import distributed as dist
from torch.nn import Parameter
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

T = TypeVar("T")


class Piece(NamedTuple):
    """The position of a rank's piece in the whole tensor.

    Attributes:
        shape: shape of the whole tensor.
        first_row: place of the piece's first row.
        places: places for rows on all ranks together; some are empty if rows do not divide evenly.
        counted: False where another rank counts the same elements.
        start: position of the piece's first element in its row, when the piece is flattened and may begin and end
            within a row (FSDP1); None for a piece that has the tensor's dimensions.
    """

    shape: torch.Size
    first_row: int
    places: int
    counted: bool = True
    start: int | None = None

    def row_count(self, x: Tensor) -> int:
        """Rows of the tensor that the piece has a part of; 1 for a tensor without rows."""
        if len(self.shape) <= 1:
            return 1
        if self.start is None:
            return x.shape[0]
        return -(-(self.start + x.numel()) // math.prod(self.shape[1:])) if x.numel() else 0

    def rows(self, x: Tensor) -> Tensor:
        """The piece by rows, with 0 for elements of other ranks."""
        if self.start is None or len(self.shape) <= 1:
            return x
        count, length = self.row_count(x), math.prod(self.shape[1:])
        return F.pad(x, (self.start, count * length - self.start - x.numel())).view(count, length)

    def spread(self, by_row: Tensor, x: Tensor) -> Tensor:
        """Values of all places for rows, shape (places,), in a shape that broadcasts with the piece."""
        if len(self.shape) <= 1:
            return spread(by_row, x)
        here = by_row.narrow(0, self.first_row, self.row_count(x))
        if self.start is None:
            return spread(here, x)
        return here.repeat_interleave(math.prod(self.shape[1:])).narrow(0, self.start, x.numel())


class Layout(NamedTuple):
    """The part of a sharded tensor on this rank; `piece` and `ranks` are None if it is the whole tensor."""

    value: Tensor
    grad: Tensor
    piece: Piece | None
    ranks: ProcessGroup | None


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


def living(kind: type[T]) -> list[T]:
    """Every object of a class that is alive in this process."""
    return [x for x in gc.get_objects() if kind in type(x).__mro__]  # issubclass is slow for abstract classes


class Sharding:
    """One optimizer's information about the ranks that its tensors are split over."""

    def __init__(self) -> None:
        self._given: set[int] = set()
        self._given_shapes: set[torch.Size] = set()
        self._ranks: dict[tuple[int, ...], ProcessGroup] = {}
        self._flattened: dict[int, tuple[Piece, ProcessGroup] | None] = {}
        self._zero: list[Any] | None = None

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
        if not dist.is_available() or not dist.is_initialized():
            return {}
        special = [p for p in params if type(p) is not Parameter or hasattr(p, "_fsdp_flattened")]
        if any(type(p) is Tensor and self._is_flat_partition(p) for p in special):
            raise RuntimeError(
                "PsiLogic cannot tell the tensors in a flat partition apart, which another library (DeepSpeed's "
                "ZeRO, for example) has put into its groups; use fully_shard or ZeroRedundancyOptimizer instead"
            )
        # Also those without a gradient here: a rank that has one waits for the sums of all, in the same order.
        dtensors: list[Any] = [p for p in special if is_dtensor(p) and (p.grad is not None or may_have_gradient(p))]
        split = [split_dims(p) for p in dtensors]
        reduced: dict[DeviceMesh, set[int]] = {}
        for p, dims in zip(dtensors, split, strict=True):
            reduced.setdefault(p.device_mesh, set()).update(dims)
        layouts = {
            id(p): self._dtensor(p, dims, sorted(reduced[p.device_mesh]))
            for p, dims in zip(dtensors, split, strict=True)
            if p.grad is not None or dims
        }
        for p in special:
            if hasattr(p, "_fsdp_flattened") and (layout := self._fsdp1(p)) is not None:
                layouts[id(p)] = layout
        return layouts

    def _is_flat_partition(self, p: Tensor) -> bool:
        """Whether a library has put p into the groups in place of several tensors; copies keep the shapes of theirs."""
        return p.ndim == 1 and id(p) not in self._given and p.shape not in self._given_shapes

    def pooled_with(self, optimizer: Optimizer) -> list[list[Tensor]]:
        """The tensors whose norms are pooled, by parameter group: with ZeRO-1 those of all ranks.

        With ZeRO-1 every rank has all gradients but updates only some tensors.
        """
        groups = optimizer.param_groups
        pools = groups[0]["max_grad_norm"] is not None or any(g["chaos_scope"] != "tensor" for g in groups)
        if pools and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            if self._zero is None:
                from torch.distributed.optim import ZeroRedundancyOptimizer

                self._zero = [zero for zero in living(ZeroRedundancyOptimizer) if zero.optim is optimizer]
            groups = self._zero[0].param_groups if self._zero else groups
        return [group["params"] for group in groups]

    def _dtensor(self, p: DTensor, split: Sequence[int], reduced: Sequence[int]) -> Layout:
        """The layout of a DTensor that some dimensions of its mesh split; sums run over the dimensions `reduced`."""
        value, grad = p.to_local(), self._local_grad(p)
        if not split:
            return Layout(value, grad, None, None)
        piece, ranks = dtensor_piece(p, split, reduced), self._reduction(p.device_mesh, reduced)
        return Layout(value if p.grad is not None else grad, grad, piece, ranks)

    @staticmethod
    def _local_grad(p: DTensor) -> Tensor:
        """The gradient's part on this rank; no rows if there is none."""
        grad: Any = p.grad
        if grad is None:
            return p.to_local()[:0]
        return local(grad if grad.placements == p.placements else grad.redistribute(p.device_mesh, p.placements))

    def _reduction(self, mesh: DeviceMesh, dims: Sequence[int]) -> ProcessGroup:
        """The ranks that differ from this one only in the given dimensions of the mesh."""
        if len(dims) == 1:
            return mesh.get_group(dims[0])
        index = [slice(None) if d in dims else place for d, place in enumerate(mesh.get_coordinate() or ())]
        ranks = tuple(mesh.mesh[tuple(index)].flatten().tolist())
        if ranks not in self._ranks:
            world, everyone = dist.group.WORLD, len(ranks) == dist.get_world_size()
            self._ranks[ranks] = (
                world if world and everyone else dist.new_group(list(ranks), use_local_synchronization=True)
            )
        return self._ranks[ranks]

    def _fsdp1(self, p: Tensor) -> Layout | None:
        """The layout of a parameter under `FullyShardedDataParallel`; None if it is not sharded."""
        if id(p) not in self._flattened:
            self._flattened |= fsdp1_pieces()
        if id(p) not in self._flattened:
            raise RuntimeError(
                "PsiLogic cannot tell the tensors in a flat parameter of FullyShardedDataParallel apart; "
                "wrap the model with use_orig_params=True, or use fully_shard"
            )
        position = self._flattened[id(p)]
        if position is None:
            return None
        piece, ranks = position
        if p.grad is not None:
            return Layout(p, p.grad, piece, ranks)
        nothing = p.detach().flatten()[:0]  # ranks with a gradient still need this one in the all-reduce
        return Layout(nothing, nothing, piece._replace(start=0), ranks)


def may_have_gradient(p: Any) -> bool:
    """Whether another rank may have a gradient of a DTensor of which this one has none."""
    return bool(p.requires_grad) and not any(placement.is_partial() for placement in p.placements)


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


def fsdp1_pieces() -> dict[int, tuple[Piece, ProcessGroup] | None]:
    """The piece and the ranks of every original parameter under FSDP1, by its id; None if it is not sharded."""
    from torch.distributed.fsdp._flat_param import FlatParamHandle

    pieces: dict[int, tuple[Piece, ProcessGroup] | None] = {}
    for handle in living(FlatParamHandle):
        flat: Any = handle.flat_param
        if flat._params is None:
            continue
        for i, p in enumerate(flat._params):
            if not handle.uses_sharded_strategy or dist.get_world_size(handle.process_group) == 1:
                pieces[id(p)] = None
                continue
            shape, offset = flat._shapes[i], flat._shard_param_infos[i].intra_param_start_idx or 0
            length = max(1, math.prod(shape[1:]))
            if len(shape) > 1 and flat._strides[i][0] != length:
                raise RuntimeError(
                    f"PsiLogic cannot find the rows of {flat._fqns[i]} in FSDP1's flat parameter: its strides are "
                    f"{tuple(flat._strides[i])}; make it contiguous before it is wrapped"
                )
            places = shape[0] if shape else 1
            pieces[id(p)] = Piece(shape, offset // length, places, start=offset % length), handle.process_group
    return pieces
