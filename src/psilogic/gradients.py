"""Processing of gradients before the detector and Adam: sign, unscaling, clipping, AGC, centralization.

All of it depends on sums over units only: one pass over the gradients is enough, and one reduction if tensors are
split over ranks. A unit of AGC and centralization is a row of dimension 0, or the whole tensor if it has at most one
dimension or neither of the two works by rows.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic import equations as eq
from psilogic.tensors import host_norms
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import (
    Foreach,
    as_real,
    fresh,
    parts_sums,
    root,
    root_of_count,
    row_squares,
    row_squares_and_sums,
    tensor_squares,
    total,
)

AGC_FLOOR = 1e-3
"""The smallest parameter norm in AGC, so that weights can leave zero."""

NOISE = 1000
"""The rounding error of a sum of squares, in units of the dtype's eps."""


class Processing(NamedTuple):
    """The processing of the gradients of N tensors: g <- scale (g - mean), unit by unit.

    Attributes:
        mean: shape (U,); None for 0.
        scale: shape (U,); None for 1.
        norms: ||g||_2 of each whole tensor after that, shape (N,).
        numel: number of real elements of each whole tensor, shape (N,); None if no rank holds a piece of one.
    """

    mean: Tensor | None
    scale: Tensor | None
    norms: Tensor
    numel: Tensor | None


class Statistics(NamedTuple):
    """Sums over the elements of N tensors with U units in all.

    Attributes:
        numel: number of real elements, shape (N,); None if no rank holds a piece of a tensor.
        squares: sum of |g|^2 of each unit, shape (U,).
        sums: sum of g of each unit, shape (U,), complex for complex tensors; None without centralization.
        param_squares: sum of |theta|^2 of each unit, shape (U,); None without AGC.
    """

    numel: Tensor | None
    squares: Tensor
    sums: Tensor | None
    param_squares: Tensor | None

    @property
    def total(self) -> Tensor:
        """The sum of |g|^2 of all tensors, 0-dim."""
        return total(self.squares)

    def to_processing(self, bucket: Bucket, factor: Tensor | None) -> Processing:
        """The processing of the gradients with these sums.

        Args:
            bucket: the tensors.
            factor: the factor of unscaling and global clipping, 0-dim; None for 1.
        """
        group, units, (_, squares, sums, param_squares) = bucket.group, bucket.units, self
        scales: list[Tensor] = []
        if factor is not None or group["maximize"]:
            sign = -1.0 if group["maximize"] else 1.0
            of_all = squares.new_full((), sign) if factor is None else sign * factor.to(squares)
            scales.append(of_all.expand_as(squares))
        if param_squares is not None:
            pools = [squares * scales[0].square() if scales else squares, param_squares]
            if group["agc_norm"] == "tensor":
                pools = [bucket.repeat(parts_sums(pool, units, bucket.on_host)) for pool in pools]
            scales.append(agc_scale(root(pools[0]), root(pools[1]), group["agc_clip"]))
        mean = None
        if sums is not None:
            numel = bucket.unit_numel
            mean = unit_mean(sums, numel)
            squares = centered_squares(squares, mean, numel)
        scale = math.prod(scales[1:], start=scales[0]) if scales else None
        if scale is not None:
            squares = squares * scale.square()
        return Processing(mean, scale, root(parts_sums(squares, units, bucket.on_host)), self.numel)


def measure(bucket: Bucket) -> Statistics:
    """The sums over this rank's elements of the bucket's tensors."""
    group = bucket.group
    grads, values = (xs if bucket.by_rows else as_real(xs) for xs in (bucket.grads, bucket.values))
    sums, param_squares = None, None
    if group["grad_centralize"]:
        # The variance of a split row is known after the reduction: only float64 is exact enough until then.
        if bucket.on_host and bucket.ranks is None and not bucket.dtype.is_complex:
            squares, sums = host_norms.row_squares_and_sums(grads)
        else:
            squares, sums = row_squares_and_sums(grads, bucket.vector_dtype)
    else:
        squares = _squares(bucket, grads)
    if group["agc_clip"] > 0:
        param_squares = _squares(bucket, fresh(values))
    return Statistics(None if bucket.ranks is None else bucket.numel, squares, sums, param_squares)


def _squares(bucket: Bucket, tensors: Foreach) -> Tensor:
    """The sum of |x|^2 of each of the bucket's units, shape (U,)."""
    if bucket.on_host and not tensors[0].is_complex():
        return host_norms.row_squares(tensors) if bucket.by_rows else host_norms.squares(tensors)
    return (row_squares if bucket.by_rows else tensor_squares)(tensors, bucket.vector_dtype)


class Rescaling(NamedTuple):
    """The common factor of all gradients: unscaling and global clipping.

    Attributes:
        total: the sum of |g|^2 over all unprocessed gradients, 0-dim; None without clipping.
        max_norm: the largest norm after clipping; None without clipping.
        grad_scale: the factor of the loss, one element; None for 1.
    """

    total: Tensor | None
    max_norm: float | None
    grad_scale: Tensor | None

    @staticmethod
    def of(sums: Sequence[Any], max_norm: float | None, grad_scale: Tensor | None) -> "Rescaling":
        """The rescaling, from the measured sums of all buckets, which have a `total` if `max_norm` is given."""
        if max_norm is None:
            return Rescaling(None, None, grad_scale)
        totals = [x.total for x in sums]
        total = totals[0] if len(totals) == 1 else torch.stack([x.to(totals[0]) for x in totals]).sum()
        return Rescaling(total, max_norm, grad_scale)

    def to(self, device: torch.device) -> "Rescaling":
        """The rescaling on another device."""
        total, scale = (None if x is None else x.to(device, non_blocking=True) for x in (self.total, self.grad_scale))
        return Rescaling(total, self.max_norm, scale)

    def factor(self, like: Tensor) -> Tensor | None:
        """The factor, 0-dim, on the device and in the dtype of a vector; None for 1."""
        unscale = None if self.grad_scale is None else self.grad_scale.to(like).reciprocal().reshape(())
        if self.total is None or self.max_norm is None:
            return unscale
        norm = root(self.total.to(like))
        if unscale is None:
            return clip_factor(norm, self.max_norm)
        return unscale * clip_factor(unscale * norm, self.max_norm)


def clip_factor(total_norm: Tensor, max_norm: float) -> Tensor:
    """min(1, max_norm / (total_norm + 1e-6)), as in `torch.nn.utils.clip_grad_norm_`."""
    return torch.clamp(max_norm / (total_norm + 1e-6), max=1.0)


def agc_scale(norm: Tensor, param_norm: Tensor, clip: float) -> Tensor:
    """Adaptive gradient clipping: min(1, clip max(||theta||, 1e-3) / ||g||), unit by unit.

    It is 1 where ||g|| is not finite: otherwise one bad element would change its whole unit.

    Reference: Brock et al. 2021, "High-Performance Large-Scale Image Recognition Without Normalization".
    """
    largest = clip * param_norm.clamp(min=AGC_FLOOR)
    clipped = (norm > largest) & (norm < math.inf)
    return torch.where(clipped, largest / torch.where(clipped, norm, 1.0), 1.0)


def unit_mean(sums: Tensor, numel: Tensor) -> Tensor:
    """Gradient centralization: the mean of each row over all dimensions but the first.

    It is 0 where it is not finite: otherwise one bad element would change its whole row.

    Reference: Yong et al. 2020, "Gradient Centralization: A New Optimization Technique for Deep Neural Networks".
    """
    mean = sums / numel
    return torch.where(mean.abs() < math.inf, mean, 0.0)


def centered_squares(squares: Tensor, mean: Tensor, numel: Tensor) -> Tensor:
    """sum |g - mean|^2 = sum |g|^2 - numel |mean|^2; 0 if it is as small as a rounding error.

    Otherwise the norm of a row of equal elements would be noise, in which a relative signal sees spikes. Squares and
    sums may be of float32's precision only if the difference is at least half of the squares.
    """
    difference = squares - numel * mean.abs().square()
    return torch.where(difference < NOISE * torch.finfo(squares.dtype).eps * squares, 0.0, difference)


def decided_by_unit(group: dict[str, Any]) -> bool:
    """Whether the processing of a unit depends only on sums over that unit and on the common factor."""
    return not (group["grad_centralize"] and group["agc_clip"] > 0 and group["agc_norm"] == "tensor")


def signals(buckets: list[Bucket], processings: list[Processing]) -> list[Tensor]:
    """gn of each bucket's tensors, shape (N,): of each tensor, or of the pool that `chaos_scope` defines."""
    every_gn = [eq.normalized_norm(x.norms, b.root_numel(x.numel)) for b, x in zip(buckets, processings, strict=True)]
    pools: dict[int, list[int]] = {}
    for i, bucket in enumerate(buckets):
        if (scope := bucket.group["chaos_scope"]) != "tensor":
            pools.setdefault(id(bucket.group) if scope == "group" else 0, []).append(i)
    for members in pools.values():
        like, numels = processings[members[0]].norms, [processings[i].numel for i in members]
        squares = torch.stack([total(processings[i].norms.square()).to(like) for i in members]).sum()
        counts = [buckets[i].numel if numel is None else numel for i, numel in zip(members, numels, strict=True)]
        numel = torch.stack([count.sum().to(like) for count in counts]).sum()
        gn = eq.normalized_norm(root(squares), root_of_count(numel))
        for i in members:
            every_gn[i] = gn.to(every_gn[i]).expand_as(every_gn[i])
    return every_gn


def owned_part(bucket: Bucket, processing: Processing, gn: Tensor) -> tuple[Processing, Tensor]:
    """The processing and the gn of the tensors of a bucket that are updated."""
    index = bucket.cache.tables.vector("owned", bucket.owned, torch.int64, gn.device)
    mean, scale = (units_of(x, bucket.units, bucket.owned) for x in (processing.mean, processing.scale))
    return processing._replace(mean=mean, scale=scale, norms=processing.norms[index]), gn[index]


def units_of(by_unit: Tensor | None, units: list[int], chosen: list[int]) -> Tensor | None:
    """The values of the chosen tensors' units, from those of all tensors; None for None."""
    if by_unit is None:
        return None
    parts = by_unit.split(units)
    return torch.cat([parts[i] for i in chosen]) if chosen else by_unit[:0]
