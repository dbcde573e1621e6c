"""The tensors of one step, sorted so that each bucket can be treated at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.merging import NUMBERS, Group, merged, together
from psilogic.tensors.metadata_cache import MetadataCache
from psilogic.tensors.norms import Foreach, accumulation_dtype, root_of_count, traced, without_values
from psilogic.tensors.scalars import Scalars
from psilogic.tensors.sharding import Layout, Piece, Sharding, spread

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
"""The dtype of a complex tensor's parts."""


class BucketCache:
    """What is cached about a bucket's tensors from step to step; all of it is checked, and can be computed again."""

    def __init__(self) -> None:
        self.scalars = Scalars()
        self.free: dict[Any, dict[int, Tensor]] = {}  # by kind and parameter: scalars for states that start later
        self.tables = DeviceTables()
        self.metadata = MetadataCache()
        self.batches: dict[int, BucketCache] = {}  # of the parts of a bucket that foreach updates one after the other

    def __reduce__(self) -> tuple[type[BucketCache], tuple[()]]:
        return BucketCache, ()  # a copy is empty: addresses are part of what is cached


@dataclass
class Bucket:
    """The tensors of groups that are merged, which share device, dtype and the ranks that hold pieces of them.

    Attributes:
        groups: the parameter group of each tensor.
        device: where the tensors are.
        dtype: theirs.
        ranks: the processes that hold the tensors' pieces; None when this one holds all of them.
        cache: results about the tensors that are kept from step to step.
        params: the parameters as the optimizer has them.
        values: this rank's parts of them.
        grads: this rank's parts of their gradients.
        pieces: the positions of these parts in the whole tensors; None for each that is a whole tensor.
        owned: positions of the tensors that are updated; those without a gradient here only take part in sums.
        local_units: for each tensor the number of units that this rank holds a part of: rows of dimension 0, or 1.
        units: for each whole tensor the number of units, with the empty places of its rows.
        group: the hyperparameters; numbers in which the groups differ are vectors, shape (N,).
    """

    groups: list[Group]
    device: torch.device
    dtype: torch.dtype
    ranks: ProcessGroup | None
    cache: BucketCache
    params: list[Tensor]
    values: Foreach
    grads: Foreach
    pieces: list[Piece | None]
    owned: list[int]
    local_units: list[int] = field(init=False)
    units: list[int] = field(init=False)
    group: Group = field(init=False)

    def __post_init__(self) -> None:
        self.group = merged(self.groups)
        self.units = self.local_units = [1] * len(self.values)
        if not self.by_rows:
            return
        self.units = self.local_units = [len(x) if x.ndim > 1 else 1 for x in self.values]
        if self.ranks is not None:
            self.units = [
                count if piece is None or len(piece.shape) <= 1 else piece.places
                for count, piece in zip(self.local_units, self.pieces, strict=True)
            ]

    @property
    def numbers(self) -> Tensor | None:
        """NUMBERS of each tensor on the device, float64, shape (len(NUMBERS), N); None if the groups agree."""
        if self.group is self.groups[0]:
            return None
        n = len(self.groups)
        columns = [self.group[name] for name in NUMBERS]
        flat = [x for column in columns for x in (column.tolist() if isinstance(column, Tensor) else [column] * n)]

        def build() -> list[Tensor]:
            return [torch.tensor(flat, dtype=torch.float64, device="cpu")]

        return self.cache.tables.get("numbers", flat, self.device, build)[0].view(len(NUMBERS), n)

    @property
    def vector_dtype(self) -> torch.dtype:
        """Vectors over tensors are tiny: float64 costs nothing, where the device has it."""
        return torch.float32 if self.device.type == "mps" else torch.float64

    @property
    def on_host(self) -> bool:
        """Whether vectors may be read as numbers: they are in host memory and not traced."""
        return self.device.type == "cpu" and not (self.group["differentiable"] or without_values())

    @property
    def rounding(self) -> str:
        """How results are rounded into the parameters; only bfloat16 has a choice."""
        return str(self.group["bf16_update"]) if self.dtype == torch.bfloat16 else "nearest"

    @property
    def by_rows(self) -> bool:
        """Whether AGC or centralization treats rows of dimension 0 as units, rather than whole tensors."""
        return bool(self.group["grad_centralize"] or (self.group["agc_clip"] > 0 and self.group["agc_norm"] == "unit"))

    @property
    def numel(self) -> Tensor:
        """Number of real elements of each tensor that this rank counts, shape (N,)."""
        return self.cache.tables.vector("numel", self._counts, self.vector_dtype, self.device)

    def root_numel(self, numel: Tensor) -> Tensor:
        """The roots of `numel`, which is summed over all ranks, shape (N,); from a table if nothing is split."""
        if self.ranks is not None or traced():
            return root_of_count(numel)
        counts, dtype = self._counts, self.vector_dtype

        def roots() -> list[Tensor]:
            return [root_of_count(torch.tensor(counts, dtype=dtype, device="cpu"))]

        return self.cache.tables.get("root_numel", counts, self.device, roots)[0]

    @property
    def _counts(self) -> list[int]:
        counts = list(map(Tensor.numel, self.values))
        if self.ranks is not None:
            counts = [n if piece is None or piece.counted else 0 for n, piece in zip(counts, self.pieces, strict=True)]
        return [2 * n for n in counts] if self.dtype.is_complex else counts

    @property
    def unit_numel(self) -> Tensor:
        """Number of elements of each unit, at least 1, shape (U,)."""
        shapes = [x.shape if piece is None else piece.shape for x, piece in zip(self.values, self.pieces, strict=True)]
        lengths = [max(1, shape[1:].numel()) if len(shape) > 1 else 1 for shape in shapes]
        return self.repeat(self.cache.tables.vector("unit_numel", lengths, self.vector_dtype, self.device))

    def repeat(self, by_tensor: Tensor) -> Tensor:
        """One value for each tensor, shape (N,), repeated for each of its units, shape (U,)."""
        units = self.units
        counts = self.cache.tables.vector("units", units, torch.int64, self.device)
        return by_tensor.repeat_interleave(counts, output_size=sum(units))

    def owned_part(self) -> Bucket:
        """The tensors that have a gradient on this rank."""
        if len(self.owned) == len(self.params):
            return self
        params, values, grads = ([xs[i] for i in self.owned] for xs in (self.params, self.values, self.grads))
        groups, pieces = [self.groups[i] for i in self.owned] or self.groups[:1], [self.pieces[i] for i in self.owned]
        kind, every = (self.device, self.dtype, self.ranks, self.cache), list(range(len(self.owned)))
        return Bucket(groups, *kind, params, values, grads, pieces, every)

    def spread(self, by_unit: Tensor, chosen: Iterable[int] | None = None) -> Foreach:
        """One value for each unit, shape (U,), as tensors that broadcast with the gradients in the dtype of sums.

        Args:
            by_unit: the values.
            chosen: positions of the tensors to return; None for all.
        """
        dtype = accumulation_dtype(self.dtype)
        parts = by_unit.to(dtype if by_unit.is_complex() else REAL.get(dtype, dtype)).split(self.units)
        return [
            spread(parts[i], self.grads[i])
            if (piece := self.pieces[i]) is None
            else piece.spread(parts[i], self.grads[i])
            for i in (range(len(parts)) if chosen is None else chosen)
        ]


class _Columns(NamedTuple):
    """For each tensor of merged groups in a step: the columns of a bucket, its ranks, and whether it is updated."""

    groups: list[Group]
    params: list[Tensor]
    values: Foreach
    grads: Foreach
    pieces: list[Piece | None]
    ranks: list[ProcessGroup | None]
    updated: list[bool]

    def of(self, chosen: list[int]) -> _Columns:
        """Some of the tensors."""
        columns: list[Any] = [[xs[i] for i in chosen] for xs in self]
        return _Columns(*columns)


def collect(optimizer: Optimizer, sharding: Sharding, caches: dict[int, BucketCache]) -> list[Bucket]:
    """The tensors that have gradients, by merged groups, device, dtype and the ranks that hold pieces of them.

    Args:
        optimizer: has the groups.
        sharding: knows which tensors are split, and how.
        caches: the cache of each bucket, by its position; missing ones are added.

    Raises:
        RuntimeError: a gradient is sparse, or a parameter is sharded in a way that hides its tensors.
    """
    layouts = sharding.layouts([p for group in optimizer.param_groups for p in group["params"]])
    buckets: list[Bucket] = []
    for members in together(optimizer.param_groups, optimizer.defaults):
        groups: list[Group] = []
        params: list[Tensor] = []
        for i in members:
            params += optimizer.param_groups[i]["params"]
            groups += [optimizer.param_groups[i]] * (len(params) - len(groups))
        columns = _split(groups, params, layouts) if layouts else _whole(groups, params)
        if any([g.is_sparse for g in columns.grads]):  # noqa: C419, a list is faster
            raise RuntimeError("PsiLogic does not support sparse gradients; use sparse=False in the embedding")
        for kind, (groups, params, values, grads, pieces, _, updated) in _by_kind(columns).items():
            owned = [i for i, is_updated in enumerate(updated) if is_updated]
            cache = caches.setdefault(len(buckets), BucketCache())
            buckets.append(Bucket(groups, *kind, cache, params, values, grads, pieces, owned))
    return buckets


def _by_kind(columns: _Columns) -> dict[tuple[torch.device, torch.dtype, ProcessGroup | None], _Columns]:
    """The tensors by device, dtype and ranks."""
    devices, dtypes = [p.device for p in columns.params], [p.dtype for p in columns.params]
    kinds = dict.fromkeys(zip(devices, dtypes, columns.ranks, strict=True))
    if len(kinds) == 1:
        return dict.fromkeys(kinds, columns)
    every = list(zip(devices, dtypes, columns.ranks, strict=True))
    return {kind: columns.of([i for i, other in enumerate(every) if other == kind]) for kind in kinds}


def _whole(groups: list[Group], params: list[Tensor]) -> _Columns:
    """The tensors that have gradients if this process holds and updates all of them."""
    grads: list[Any] = [p.grad for p in params]
    present = [g is not None for g in grads]
    if not all(present):
        groups, params, grads = (list(compress(xs, present)) for xs in (groups, params, grads))
    n = len(params)
    return _Columns(groups, params, params, grads, [None] * n, [None] * n, [True] * n)


def _split(groups: list[Group], params: list[Tensor], layouts: dict[int, Layout]) -> _Columns:
    """The tensors that take part in the step if ranks hold pieces of some."""
    rows: list[Any] = []
    for group, p in zip(groups, params, strict=True):
        layout = layouts.get(id(p))
        value, grad, piece, ranks = layout or (p, p.grad, None, None)
        if grad is not None:
            rows.append((group, p, value, grad, piece, ranks, p.grad is not None))
    return _Columns(*map(list, zip(*rows, strict=True))) if rows else _whole([], [])
