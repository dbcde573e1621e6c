"""Buckets: the tensors of one step that are treated at once, and the hyperparameters that they share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from psilogic.options import NUMBERS
from psilogic.tensors.device_tables import DeviceTables, upload
from psilogic.tensors.memory import MetadataCache
from psilogic.tensors.norms import TensorList, accumulation_dtype, root_of_count, traced, without_values
from psilogic.tensors.sharding import Piece, broadcast_rows

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
"""The dtype of a complex tensor's parts."""

Group = dict[str, Any]
"""The hyperparameters, as in `torch.optim.Optimizer.param_groups`."""


class BucketCache:
    """What is cached about a bucket's tensors from step to step; all of it is checked, and can be computed again."""

    def __init__(self) -> None:
        self.tables = DeviceTables()
        self.metadata = MetadataCache()
        self.parts: dict[int, BucketCache] = {}  # of its parts, where several backends share a bucket
        self.batches: dict[int, DeviceTables] = {}  # of the batches that foreach updates one after the other
        # The addresses of tensors and scalars that were found to be right: each is one, and no two parameters share it.
        self.addresses: Any = None
        self.scalar_addresses: Any = None
        # Memory for two vectors over units, the same in each step: that of new memory costs as much as the update.
        self.unit_vectors: dict[int, Tensor] = {}


@dataclass
class Bucket:
    """The tensors of groups that are merged, which share device, dtype and the ranks that hold pieces of them."""

    groups: list[Group]  # the parameter group of each tensor
    device: torch.device  # where the tensors are
    dtype: torch.dtype  # theirs
    ranks: ProcessGroup | None  # the processes that hold the tensors' pieces; None when this one holds all of them
    cache: BucketCache  # results about the tensors that are kept from step to step
    params: list[Tensor]  # the parameters as the optimizer has them
    values: TensorList  # this rank's parts of them
    grads: TensorList  # this rank's parts of their gradients
    # the positions of these parts in the whole tensors; None for each that is a whole tensor
    pieces: list[Piece | None]
    owned: list[int]  # positions of the tensors that are updated; those without a gradient here only take part in sums

    def __post_init__(self) -> None:
        # The hyperparameters; numbers in which the groups differ are vectors on the host, shape (N,).
        self.group: Group = hyperparameters_of(self.groups)
        self.reading = 0  # counts how often they were read
        self._numbers: Tensor | None = None  # the vectors on the device, where groups differ
        group = self.group
        clips = group["agc_clip"] > 0
        centralizes = group["grad_centralize"]
        # Whether a unit's processing depends only on sums over it and on the common factor.
        self.by_unit = not (centralizes and clips and group["agc_norm"] == "tensor")
        self.rounding = group["bf16_update"] if self.dtype == torch.bfloat16 else "nearest"
        # Whether AGC or centralization treats rows of dimension 0 as units, rather than whole tensors.
        self.by_rows = centralizes or (clips and group["agc_norm"] == "unit")
        self.vector_dtype = torch.float32 if self.device.type == "mps" else torch.float64
        # The units of each tensor that this rank holds; and with the empty slots of a split tensor's rows.
        if self.by_rows:
            self.local_units = _rows_of_each(self.values)
        else:
            self.local_units = [1] * len(self.values)
        self.units = self.local_units
        if self.by_rows and self.ranks is not None:
            self.units = self._row_slots()

    def release(self) -> None:
        """Forget the tensors and the groups, which have them; what is known about whole tensors stays."""
        if self.group is self.groups[0]:
            self.group = {}
        self.groups = []
        self.params = []
        self.values = self.params
        self.grads = []

    def fill(self, groups: list[Group], params: TensorList, grads: TensorList, numbers_changed: bool) -> None:
        """Take the whole tensors of another step, which differ from those before in nothing but their values.

        With `numbers_changed` their groups have other numbers than before.
        """
        if numbers_changed:
            self.group = hyperparameters_of(groups)
            self.reading += 1
            self._numbers = None
        elif not self.group:
            self.group = groups[0]
        self.groups = groups
        self.params = params
        self.values = params
        self.grads = grads

    def _row_slots(self) -> list[int]:
        """The units of each tensor, with the empty slots of a split tensor's rows."""
        units = []
        for count, piece in zip(self.local_units, self.pieces, strict=True):
            if piece is not None and len(piece.shape) > 1:
                units.append(piece.row_slots)
            else:
                units.append(count)
        return units

    @property
    def on_host(self) -> bool:
        """Whether vectors may be read as numbers: they are in host memory and not traced."""
        return self.device.type == "cpu" and not (self.group["differentiable"] or without_values())

    @property
    def numbers(self) -> Tensor | None:
        """NUMBERS of each tensor on the device, float64, shape (len(NUMBERS), N); None if the groups agree."""
        if self.group is self.groups[0]:
            return None
        if self._numbers is None:
            count = len(self.groups)
            flat: list[float] = []
            for name in NUMBERS:
                number = self.group[name]
                if isinstance(number, Tensor):
                    flat += number.tolist()
                else:
                    flat += [number] * count
            vector = self.cache.tables.vector("numbers", flat, torch.float64, self.device)
            self._numbers = vector.view(len(NUMBERS), count)
        return self._numbers

    def hyperparameters(self, wide: bool = True) -> Group:
        """The hyperparameters as the tensors' device takes them.

        Numbers in which the groups differ are vectors there, shape (N,). A tensor `lr` or `weight_decay` is 0-dim, `lr`
        on the tensors' device; with `wide` both in the dtype of vectors.
        """
        group = self.group
        if self.device.type != "cpu":
            numbers = self.numbers
            if numbers is not None:
                return {**group, **dict(zip(NUMBERS, numbers, strict=True))}
        changed = {}
        for name in ("lr", "weight_decay"):
            number = group[name]
            if isinstance(number, Tensor) and number.numel() == 1:
                number = number.reshape(1)
                if wide:
                    number = number.to(self.vector_dtype)
                if name == "lr":
                    number = upload("lr", number, self.device)
                changed[name] = number.reshape(())
        if not changed:
            return group
        return {**group, **changed}

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
        counts = [x.numel() for x in self.values]
        if self.ranks is not None:
            for i, piece in enumerate(self.pieces):
                if piece is not None and not piece.counted:
                    counts[i] = 0
        if self.dtype.is_complex:
            return [2 * n for n in counts]
        return counts

    @property
    def unit_numel(self) -> Tensor:
        """Number of elements of each unit, at least 1, shape (U,)."""
        lengths = []
        for x, piece in zip(self.values, self.pieces, strict=True):
            shape = x.shape if piece is None else piece.shape
            lengths.append(max(1, shape[1:].numel()))  # 1 for a tensor without rows
        return self.repeat(self.cache.tables.vector("unit_numel", lengths, self.vector_dtype, self.device))

    def repeat(self, by_tensor: Tensor) -> Tensor:
        """One value for each tensor, shape (N,), repeated for each of its units, shape (U,)."""
        counts = self.cache.tables.vector("units", self.units, torch.int64, self.device)
        return by_tensor.repeat_interleave(counts, output_size=sum(self.units))

    def owned_part(self) -> Bucket:
        """The tensors that have a gradient on this rank."""
        return self.part(self.owned, self.cache)

    def part(self, chosen: Sequence[int], cache: BucketCache) -> Bucket:
        """Some of the tensors, all of which are updated."""
        groups: list[Group] = []
        params: TensorList = []
        values: TensorList = []
        grads: TensorList = []
        pieces: list[Piece | None] = []
        for i in chosen:
            groups.append(self.groups[i])
            params.append(self.params[i])
            values.append(self.values[i])
            grads.append(self.grads[i])
            pieces.append(self.pieces[i])
        if not groups:  # the hyperparameters are read also if no tensor is owned
            groups = self.groups[:1]
        return Bucket(
            groups=groups,
            device=self.device,
            dtype=self.dtype,
            ranks=self.ranks,
            cache=cache,
            params=params,
            values=values,
            grads=grads,
            pieces=pieces,
            owned=list(range(len(params))),
        )


def _rows_of_each(tensors: TensorList) -> list[int]:
    """The number of rows of each tensor; 1 for one without rows, which is treated as a whole."""
    counts = []
    for x in tensors:
        if x.ndim > 1:
            counts.append(len(x))
        else:
            counts.append(1)
    return counts


def broadcast_units(
    by_unit: Tensor, units: list[int], tensors: TensorList, pieces: Sequence[Piece | None] = ()
) -> TensorList:
    """One value for each unit, shape (U,), as tensors that broadcast with N tensors of one dtype, in that of sums.

    `units` has the number of units of each tensor, `pieces` the positions of those of which other ranks hold parts.
    """
    dtype = accumulation_dtype(tensors[0].dtype)
    if not by_unit.is_complex():
        dtype = REAL.get(dtype, dtype)
    parts = by_unit.to(dtype).split(units)
    if not pieces:
        return [broadcast_rows(part, x) for part, x in zip(parts, tensors, strict=True)]
    broadcast = []
    for part, x, piece in zip(parts, tensors, pieces, strict=True):
        broadcast.append(broadcast_rows(part, x) if piece is None else piece.broadcast(part, x))
    return broadcast


def hyperparameters_of(groups: Sequence[Group]) -> Group:
    """The hyperparameters of N tensors: those of a group, or a copy with vectors, shape (N,), where groups differ."""
    first = groups[0]
    decay = first["weight_decay"]
    if first is groups[-1]:
        if not isinstance(decay, Tensor) or traced() or decay.device.type != "cpu":
            return first
        return {**first, "weight_decay": float(decay)}
    columns: Group = {}
    for name in (*NUMBERS, "eps"):
        columns[name] = _column(map(itemgetter(name), groups))
    betas1_of_each, betas2_of_each = zip(*map(itemgetter("betas"), groups), strict=True)
    beta1 = _column(betas1_of_each)
    beta2 = _column(betas2_of_each)
    if not any(isinstance(number, Tensor) for number in (*columns.values(), beta1, beta2, decay)):
        return first
    return {**first, **columns, "betas": (beta1, beta2), "params": []}


def _column(number_of_each: Iterable[float | Tensor]) -> float | Tensor:
    """The number that all tensors share, or a vector, shape (N,)."""
    values = list(map(float, number_of_each))
    if values.count(values[0]) == len(values):
        return values[0]
    return torch.tensor(values, dtype=torch.float64, device="cpu")
