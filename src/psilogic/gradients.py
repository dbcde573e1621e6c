"""Processing of gradients before the detector and Adam: sign, unscaling, clipping, AGC, centralization.

All of it depends on sums over units only: one pass over the gradients is enough, and one reduction if tensors are
split over ranks. A unit of AGC and centralization is a row of dimension 0, or the whole tensor if it has at most one
dimension or neither of the two works by rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from psilogic.tensors import host_norms, norms
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import Foreach, as_real, fresh, parts_sums, root, root_of_count, total

if TYPE_CHECKING:
    from psilogic.updates.types import Work

AGC_FLOOR = 1e-3
"""The smallest parameter norm in AGC, so that weights can leave zero."""

NOISE = 1000
"""The rounding error of a sum of squares, in units of the dtype's eps."""


class Sums(NamedTuple):
    """Sums over the elements of N tensors with U units in all."""

    numel: Tensor | None  # number of real elements, shape (N,); None if no rank holds a piece of a tensor
    squares: Tensor  # sum of |g|^2 of each unit, shape (U,)
    sums: Tensor | None  # sum of g of each unit, shape (U,), complex for complex tensors; None without centralization
    param_squares: Tensor | None  # sum of |theta|^2 of each unit, shape (U,); None without AGC

    @property
    def total(self) -> Tensor:
        """The sum of |g|^2 of all tensors, 0-dim."""
        return total(self.squares)


def measure(bucket: Bucket) -> Sums:
    """The sums over this rank's elements of the bucket's tensors."""
    group = bucket.group
    grads, values = (xs if bucket.by_rows else as_real(xs) for xs in (bucket.grads, bucket.values))
    squares, sums = _sums(bucket, grads, group["grad_centralize"])
    param_squares = _sums(bucket, fresh(values), False)[0] if group["agc_clip"] > 0 else None
    return Sums(None if bucket.ranks is None else bucket.numel, squares, sums, param_squares)


def _sums(bucket: Bucket, tensors: Foreach, with_sums: bool) -> tuple[Tensor, Tensor | None]:
    """The sum of |x|^2 of each of the bucket's units, shape (U,), and that of x if asked."""
    # The variance of a split row is known after the reduction: only float64 is exact enough until then.
    on_host = bucket.on_host and not tensors[0].is_complex() and not (with_sums and bucket.ranks is not None)
    if not bucket.by_rows:
        return host_norms.squares(tensors) if on_host else norms.tensor_squares(tensors, bucket.vector_dtype), None
    if on_host:
        return host_norms.row_sums(tensors, with_sums)
    return norms.row_sums(tensors, bucket.vector_dtype, with_sums)


def process(work: Work, factor: Tensor | None) -> None:
    """Note how the sums process the gradients of a bucket, g <- scale (g - mean), and their norms after that.

    Args:
        work: has the sums, and gets mean, scale and norms.
        factor: the factor of unscaling and global clipping, 0-dim; None for 1.
    """
    bucket, group, (work.numel, squares, sums, param_squares) = work.bucket, work.bucket.group, work.sums
    scales: list[Tensor] = []
    if factor is not None or group["maximize"]:
        sign = -1.0 if group["maximize"] else 1.0
        of_all = squares.new_full((), sign) if factor is None else sign * factor.to(squares)
        scales.append(of_all.expand_as(squares))
    if param_squares is not None:
        pools = [squares * scales[0].square() if scales else squares, param_squares]
        if group["agc_norm"] == "tensor":
            pools = [bucket.repeat(parts_sums(pool, bucket.units, bucket.on_host)) for pool in pools]
        scales.append(agc_scale(root(pools[0]), root(pools[1]), group["agc_clip"]))
    if sums is not None:
        work.mean, squares = centered(squares, sums, bucket.unit_numel)
    if scales:
        work.scale = math.prod(scales[1:], start=scales[0])
        squares = squares * work.scale.square()
    work.norms = root(parts_sums(squares, bucket.units, bucket.on_host))


def common_factor(works: Sequence[Work], max_norm: float | None, grad_scale: Tensor | None) -> Tensor | None:
    """The factor of all gradients, 0-dim, like vectors of the first bucket; None for 1.

    Unscaling, and global clipping as in `torch.nn.utils.clip_grad_norm_`.
    """
    bucket, like = works[0].bucket, works[0].memory.fast
    factor = None if grad_scale is None else grad_scale.to(like).reciprocal().reshape(())
    if max_norm is not None:
        norm = root(total_squares(works).to(like))
        norm = norm if factor is None else factor * norm
        clip = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
        factor = clip if factor is None else factor * clip
    return None if factor is None or (bucket.on_host and factor == 1) else factor  # reading it is free on the host


def total_squares(works: Sequence[Work]) -> Tensor:
    """The sum of |g|^2 over all unprocessed gradients, 0-dim."""
    totals = [work.sums.total for work in works]
    return totals[0] if len(totals) == 1 else torch.stack([x.to(totals[0]) for x in totals]).sum()


def agc_scale(norm: Tensor, param_norm: Tensor, clip: float) -> Tensor:
    """Adaptive gradient clipping: min(1, clip max(||theta||, 1e-3) / ||g||), unit by unit.

    It is 1 where ||g|| is not finite: otherwise one bad element would change its whole unit.

    Reference: Brock et al. 2021, "High-Performance Large-Scale Image Recognition Without Normalization".
    """
    largest = clip * param_norm.clamp(min=AGC_FLOOR)
    clipped = (norm > largest) & (norm < math.inf)
    return torch.where(clipped, largest / torch.where(clipped, norm, 1.0), 1.0)


def centered(squares: Tensor, sums: Tensor, numel: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient centralization: the mean of each row over all dimensions but the first, and sum |g - mean|^2.

    The mean is 0 where it is not finite: otherwise one bad element would change its whole row. The squares are
    sum |g|^2 - numel |mean|^2, and 0 if that is as small as a rounding error: otherwise the norm of a row of equal
    elements would be noise, in which a relative signal sees spikes. Squares and sums may be of float32's precision only
    if the difference is at least half of the squares.

    Reference: Yong et al. 2020, "Gradient Centralization: A New Optimization Technique for Deep Neural Networks".
    """
    mean = sums / numel
    mean = torch.where(mean.abs() < math.inf, mean, 0.0)
    difference = squares - numel * mean.abs().square()
    return mean, torch.where(difference < NOISE * torch.finfo(squares.dtype).eps * squares, 0.0, difference)


def signals(works: Sequence[Work]) -> list[Tensor]:
    """gn of each bucket's tensors, shape (N,): of each tensor, or of the pool that `chaos_scope` defines."""
    every_gn = [work.norms / work.bucket.root_numel(work.numel) for work in works]
    pools: dict[int, int] = {}  # the position of each, by its group, or 0
    places: dict[int, list[int]] = {}  # the pool of each tensor, by the position of its bucket
    for i, work in enumerate(works):
        if (scope := work.bucket.group["chaos_scope"]) != "tensor":
            keys = [id(group) if scope == "group" else 0 for group in work.bucket.groups]
            places[i] = [pools.setdefault(key, len(pools)) for key in keys]
    if not places:
        return every_gn
    sums, where = works[next(iter(places))].norms.new_zeros(2, len(pools)), {}
    for i, of_tensors in places.items():
        bucket, norms, numel = works[i].bucket, works[i].norms, works[i].numel
        values = torch.stack([norms.square(), (bucket.numel if numel is None else numel).to(norms)])
        where[i] = to = bucket.cache.tables.vector("pools", of_tensors, torch.int64, sums.device)
        if len(set(of_tensors)) == 1:  # always on a GPU, where other additions would have no fixed order
            values, to = values.sum(1, keepdim=True), to[:1]
        sums = sums.index_add(1, to, values.to(sums))
    gn = root(sums[0]) / root_of_count(sums[1])
    return [gn[where[i]].to(x) if i in where else x for i, x in enumerate(every_gn)]


def to_owned(work: Work, gn: Tensor) -> Tensor:
    """The gn of the tensors of a bucket that this process updates, of which it then has mean and scale."""
    bucket = work.bucket
    work.mean, work.scale = (units_of(x, bucket.units, bucket.owned) for x in (work.mean, work.scale))
    return gn[bucket.cache.tables.vector("owned", bucket.owned, torch.int64, gn.device)]


def units_of(by_unit: Tensor | None, units: list[int], chosen: list[int]) -> Tensor | None:
    """The values of the chosen tensors' units, from those of all tensors; None for None."""
    if by_unit is None or len(chosen) == len(units):
        return by_unit
    parts = by_unit.split(units)
    return torch.cat([parts[i] for i in chosen]) if chosen else by_unit[:0]
