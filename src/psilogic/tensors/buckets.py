"""The tensors of one step, sorted so that each bucket can be treated at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.optim import Optimizer

from psilogic.tensors.device_tables import DeviceTables, upload
from psilogic.tensors.memory import MetadataCache
from psilogic.tensors.norms import Foreach, accumulation_dtype, root_of_count, traced, without_values
from psilogic.tensors.sharding import Layout, Piece, Sharding, spread
from psilogic.tensors.state import Scalars

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
"""The dtype of a complex tensor's parts."""

Group = dict[str, Any]
"""The hyperparameters, as in `torch.optim.Optimizer.param_groups`."""
NUMBERS = ("lr", "weight_decay", "gamma", "p_ext", "max_cancel", "tau_scale", "chaos_tau")
"""Hyperparameters that may be vectors over the tensors of a bucket; on the host `betas` and `eps` too. All others are
the same."""


class BucketCache:
    """What is cached about a bucket's tensors from step to step; all of it is checked, and can be computed again."""

    def __init__(self) -> None:
        self.scalars = Scalars()
        self.free: dict[Any, dict[int, Tensor]] = {}  # by kind and parameter: scalars for states that start later
        self.tables = DeviceTables()
        self.metadata = MetadataCache()
        self.batches: dict[int, DeviceTables] = {}  # of the batches that foreach updates one after the other
        # Memory for two vectors over units, the same in each step: that of new memory costs as much as the update.
        self.unit_vectors: dict[int, Tensor] = {}

    def __reduce__(self) -> tuple[type[BucketCache], tuple[()]]:
        return BucketCache, ()  # a copy is empty: addresses are part of what is cached


@dataclass
class Bucket:
    """The tensors of groups that are merged, which share device, dtype and the ranks that hold pieces of them."""

    groups: list[Group]  # the parameter group of each tensor
    device: torch.device  # where the tensors are
    dtype: torch.dtype  # theirs
    ranks: ProcessGroup | None  # the processes that hold the tensors' pieces; None when this one holds all of them
    cache: BucketCache  # results about the tensors that are kept from step to step
    params: list[Tensor]  # the parameters as the optimizer has them
    values: Foreach  # this rank's parts of them
    grads: Foreach  # this rank's parts of their gradients
    # the positions of these parts in the whole tensors; None for each that is a whole tensor
    pieces: list[Piece | None]
    owned: list[int]  # positions of the tensors that are updated; those without a gradient here only take part in sums

    def __post_init__(self) -> None:
        group, same = self.groups[0], self.groups[-1] is self.groups[0]
        # The hyperparameters; numbers in which the groups differ are vectors on the host, shape (N,).
        self.group = group = group if same and not isinstance(group["weight_decay"], Tensor) else merged(self.groups)
        # Whether a unit's processing depends only on sums over it and on the common factor.
        self.by_unit = not (group["grad_centralize"] and group["agc_clip"] > 0 and group["agc_norm"] == "tensor")
        self.rounding = group["bf16_update"] if self.dtype == torch.bfloat16 else "nearest"
        # Whether AGC or centralization treats rows of dimension 0 as units, rather than whole tensors.
        self.by_rows = group["grad_centralize"] or (group["agc_clip"] > 0 and group["agc_norm"] == "unit")
        self.vector_dtype = torch.float32 if self.device.type == "mps" else torch.float64
        # The units of each tensor, with the empty places of a split tensor's rows; and those that this rank holds.
        self.units = self.local_units = [len(x) if self.by_rows and x.ndim > 1 else 1 for x in self.values]
        if self.by_rows and self.ranks is not None:
            self.units = [
                count if piece is None or len(piece.shape) <= 1 else piece.places
                for count, piece in zip(self.local_units, self.pieces, strict=True)
            ]

    @property
    def on_host(self) -> bool:
        """Whether vectors may be read as numbers: they are in host memory and not traced."""
        return self.device.type == "cpu" and not (self.group["differentiable"] or without_values())

    @property
    def numbers(self) -> Tensor | None:
        """NUMBERS of each tensor on the device, float64, shape (len(NUMBERS), N); None if the groups agree."""
        if self.group is self.groups[0]:
            return None
        n = len(self.groups)
        columns = [self.group[name] for name in NUMBERS]
        flat = [x for column in columns for x in (column.tolist() if isinstance(column, Tensor) else [column] * n)]
        return self.cache.tables.vector("numbers", flat, torch.float64, self.device).view(len(NUMBERS), n)

    def hyperparameters(self, wide: bool = True) -> Group:
        """The hyperparameters as the tensors' device takes them.

        Numbers in which the groups differ are vectors there, shape (N,). A tensor `lr` or `weight_decay` is 0-dim, `lr`
        on the tensors' device; with `wide` both in the dtype of vectors.
        """
        group = self.group
        if self.device.type != "cpu" and (numbers := self.numbers) is not None:
            return {**group, **dict(zip(NUMBERS, numbers, strict=True))}
        single = {x: group[x] for x in ("lr", "weight_decay") if isinstance(group[x], Tensor) and group[x].numel() == 1}
        if not single:
            return group
        single = {name: x.reshape(1).to(self.vector_dtype if wide else x.dtype) for name, x in single.items()}
        if "lr" in single:
            single["lr"] = upload("lr", single["lr"], self.device)
        return {**group, **{name: x.reshape(()) for name, x in single.items()}}

    @property
    def numel(self) -> Tensor:
        """Number of real elements of each tensor that this rank counts, shape (N,)."""
        return self.cache.tables.vector("numel", self._counts, self.vector_dtype, self.device)

    def root_numel(self, numel: Tensor | None) -> Tensor:
        """The roots of `numel`, which is summed over ranks, shape (N,); of whole tensors, for None, from a table."""
        if numel is not None:
            return root_of_count(numel)
        roots = [math.sqrt(max(n, 1)) for n in self._counts]
        return self.cache.tables.vector("root_numel", roots, self.vector_dtype, self.device)

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
        counts = self.cache.tables.vector("units", self.units, torch.int64, self.device)
        return by_tensor.repeat_interleave(counts, output_size=sum(self.units))

    def owned_part(self) -> Bucket:
        """The tensors that have a gradient on this rank."""
        params, values, grads = ([xs[i] for i in self.owned] for xs in (self.params, self.values, self.grads))
        groups, pieces = [self.groups[i] for i in self.owned] or self.groups[:1], [self.pieces[i] for i in self.owned]
        kind, every = (self.device, self.dtype, self.ranks, self.cache), list(range(len(self.owned)))
        return Bucket(groups, *kind, params, values, grads, pieces, every)


def spread_units(by_unit: Tensor, units: list[int], tensors: Foreach, pieces: Sequence[Piece | None] = ()) -> Foreach:
    """One value for each unit, shape (U,), as tensors that broadcast with N tensors of one dtype, in that of sums.

    `units` has the number of units of each tensor, `pieces` the places of those of which other ranks hold parts.
    """
    dtype = accumulation_dtype(tensors[0].dtype)
    parts = by_unit.to(dtype if by_unit.is_complex() else REAL.get(dtype, dtype)).split(units)
    return [
        spread(part, x) if piece is None else piece.spread(part, x)
        for part, x, piece in zip(parts, tensors, pieces or [None] * len(tensors), strict=True)
    ]


def collect(optimizer: Optimizer, sharding: Sharding, caches: dict[int, BucketCache]) -> list[Bucket]:
    """The tensors that have gradients, by merged groups, device, dtype and the ranks that hold pieces of them.

    Each bucket has one of the caches, by its position; missing ones are added.

    Raises:
        RuntimeError: a gradient is sparse, or a parameter is sharded in a way that hides its tensors.
    """
    every, layouts = optimizer.param_groups, {}
    if dist.is_available() and dist.is_initialized():
        layouts = sharding.layouts([p for group in every for p in group["params"]])
    buckets: list[Bucket] = []
    for members in [[0]] if len(every) == 1 else together(every, optimizer.defaults):
        params = [p for i in members for p in every[i]["params"]]
        groups = [group for i in members for group in [every[i]] * len(every[i]["params"])]
        for (device, dtype, ranks), (of_each, *columns) in _by_kind(groups, params, layouts).items():
            if len(buckets) not in caches:
                caches[len(buckets)] = BucketCache()
            buckets.append(Bucket(of_each, device, dtype, ranks, caches[len(buckets)], *columns))
    return buckets


def _by_kind(groups: list[Group], params: list[Tensor], layouts: dict[int, Layout]) -> dict[Any, list[Any]]:
    """The columns of a bucket for the tensors that take part in the step, by device, dtype and ranks."""
    n = len(params)
    values, grads, pieces, ranks = params, [p.grad for p in params], [None] * n, [None] * n
    if layouts:
        shares: list[Any] = [layouts.get(id(p)) or (p, p.grad, None, None) for p in params]
        values, grads, pieces, ranks = map(list, zip(*shares, strict=True))
    columns: list[list[Any]] = [groups, params, values, grads, pieces]
    present = [g is not None for g in grads]
    if not all(present):
        columns, ranks = [list(compress(xs, present)) for xs in columns], list(compress(ranks, present))
    if any([g.is_sparse for g in columns[3]]):  # noqa: C419, a list is faster
        raise RuntimeError("PsiLogic does not support sparse gradients; use sparse=False in the embedding")
    kinds = [(p.device, p.dtype, of_p) for p, of_p in zip(columns[1], ranks, strict=True)]
    found = {}
    for kind in dict.fromkeys(kinds):
        chosen = columns
        if kinds.count(kind) < len(kinds):
            chosen = [[x for x, other in zip(xs, kinds, strict=True) if other == kind] for xs in columns]
        found[kind] = [*chosen, [i for i, p in enumerate(chosen[1]) if not layouts or p.grad is not None]]
    return found


def together(groups: Sequence[Group], names: Iterable[str]) -> list[list[int]]:
    """The positions of an optimizer's groups by the hyperparameters that they share; those not merged are alone.

    Groups are merged where calls for each group cost more than elements: on the host, and where Triton updates them.
    """
    if traced():
        return [[i] for i in range(len(groups))]
    common = itemgetter(*(name for name in names if name not in (*NUMBERS, "betas", "eps")))
    by_key: dict[Any, list[int]] = {}
    for i, group in enumerate(groups):
        more = _shared(group)
        by_key.setdefault(i if more is None else (*common(group), *more), []).append(i)
    return list(by_key.values())


def _contiguous(params: Sequence[Tensor]) -> bool:
    """Whether the tensors are contiguous: the kernels update a bucket only if they support every layout in it."""
    try:
        return all(map(Tensor.is_contiguous, params))
    except ValueError:  # a lazy module's, without a shape yet
        return False


def _shared(group: Group) -> tuple[Any, ...] | None:
    """What else the groups have in common that are merged with this one; None if it stays alone."""
    params, tensors = group["params"], [x for x in (group["lr"], group["weight_decay"]) if isinstance(x, Tensor)]
    if params and all(map(attrgetter("is_cpu"), (*params, *tensors))):  # where vectors may be read as numbers
        return (_contiguous(params),)
    in_foreach = group["foreach"] is not None or group["fused"] is False or group["bf16_update"] != "nearest"
    if not params or not params[0].is_cuda or in_foreach or tensors or group["chaos_scope"] != "tensor":
        return None
    return (_contiguous(params), *group["betas"], group["eps"])


def merged(groups: Sequence[Group]) -> Group:
    """The hyperparameters of N tensors: those of a group, or a copy with vectors, shape (N,), where groups differ."""
    first, decay = groups[0], groups[0]["weight_decay"]
    if first is groups[-1]:  # its weight_decay is a tensor, otherwise nobody asks
        return first if traced() or decay.device.type != "cpu" else {**first, "weight_decay": float(decay)}
    numbers = {name: _column(map(itemgetter(name), groups)) for name in (*NUMBERS, "eps")}
    betas = tuple(map(_column, zip(*map(itemgetter("betas"), groups), strict=True)))
    if not any(isinstance(x, Tensor) for x in (*numbers.values(), *betas, decay)):
        return first
    return {**first, **numbers, "betas": betas}


def _column(of_each: Iterable[float | Tensor]) -> float | Tensor:
    """The number that all tensors share, or a vector, shape (N,)."""
    values = list(map(float, of_each))
    same = values.count(values[0]) == len(values)
    return values[0] if same else torch.tensor(values, dtype=torch.float64, device="cpu")
