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

from psilogic.step import BucketStep
from psilogic.tensors import host_norms, norms
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import TensorList, as_real, fresh, parts_sums, root, root_of_count, total
from psilogic.tensors.reduction import complete

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
    grads = bucket.grads
    values = bucket.values
    if not bucket.by_rows:
        grads = as_real(grads)
        values = as_real(values)
    squares, sums = _sums(bucket, grads, group["grad_centralize"])
    param_squares = None
    if group["agc_clip"] > 0:
        param_squares, _ = _sums(bucket, fresh(values), with_sums=False)
    numel = None if bucket.ranks is None else bucket.numel
    return Sums(numel, squares, sums, param_squares)


def _sums(bucket: Bucket, tensors: TensorList, with_sums: bool) -> tuple[Tensor, Tensor | None]:
    """The sum of |x|^2 of each of the bucket's units, shape (U,), and that of x if asked."""
    # The variance of a split row is known after the reduction: only float64 is exact enough until then.
    needs_float64 = with_sums and bucket.ranks is not None
    on_host = bucket.on_host and not tensors[0].is_complex() and not needs_float64
    if not bucket.by_rows:
        if on_host:
            return host_norms.squares(tensors), None
        return norms.tensor_squares(tensors, bucket.vector_dtype), None
    if on_host:
        return host_norms.row_sums(tensors, with_sums)
    return norms.row_sums(tensors, bucket.vector_dtype, with_sums)


def reduce(works: Sequence[BucketStep], found_inf: Tensor | None) -> Tensor | None:
    """Complete the sums of tensors of which other ranks hold pieces.

    Returns:
        GradScaler's `found_inf`, above 0 if any rank found an overflow.
    """
    split: dict[int, Sums] = {}
    for i, work in enumerate(works):
        if work.bucket.ranks is not None:
            split[i] = work.sums
    if not split:
        return found_inf
    completed, found_inf = complete([work.bucket for work in works], split, found_inf)
    for i, vectors in completed.items():
        works[i].sums = Sums(*vectors)
    return found_inf


def process(work: BucketStep, factor: Tensor | None) -> None:
    """Note how the sums process the gradients of a bucket, g <- scale (g - mean), and their norms after that.

    Args:
        work: has the sums, and gets mean, scale and norms.
        factor: the factor of unscaling and global clipping, 0-dim; None for 1.
    """
    bucket = work.bucket
    squares: Tensor = work.sums.squares
    scale = shared_scale(squares, factor, bucket.group["maximize"])
    if work.sums.param_squares is not None:
        scaled_squares = squares if scale is None else squares * scale.square()
        clipping = clipping_scale(bucket, scaled_squares, work.sums.param_squares)
        scale = clipping if scale is None else scale * clipping
    if work.sums.sums is not None:
        work.mean, squares = centered(squares, work.sums.sums, bucket.unit_numel)
    if scale is not None:
        squares = squares * scale.square()
    work.numel = work.sums.numel
    work.scale = scale
    work.norms = root(parts_sums(squares, bucket.units, bucket.on_host))


def shared_scale(squares: Tensor, factor: Tensor | None, maximize: bool) -> Tensor | None:
    """The factor of all gradients with its sign, repeated for each unit, shape (U,); None for 1."""
    if factor is None and not maximize:
        return None
    sign = -1.0 if maximize else 1.0
    number = squares.new_full((), sign) if factor is None else sign * factor.to(squares)
    return number.expand_as(squares)


def clipping_scale(bucket: Bucket, squares: Tensor, param_squares: Tensor) -> Tensor:
    """The factor of adaptive clipping for each unit, shape (U,), from sums over units."""
    group = bucket.group
    if group["agc_norm"] == "tensor":
        squares = bucket.repeat(parts_sums(squares, bucket.units, bucket.on_host))
        param_squares = bucket.repeat(parts_sums(param_squares, bucket.units, bucket.on_host))
    return agc_scale(root(squares), root(param_squares), group["agc_clip"])


def common_factor(works: Sequence[BucketStep], max_norm: float | None, grad_scale: Tensor | None) -> Tensor | None:
    """The factor of all gradients, 0-dim, like vectors of the first bucket; None for 1.

    Unscaling, and global clipping as in `torch.nn.utils.clip_grad_norm_`.
    """
    like = works[0].detector.fast
    factor = None
    if grad_scale is not None:
        factor = grad_scale.to(like).reciprocal().reshape(())
    if max_norm is not None:
        norm = root(total_squares([work.sums for work in works]).to(like))
        if factor is not None:
            norm = factor * norm
        clip = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
        factor = clip if factor is None else factor * clip
    if factor is not None and works[0].bucket.on_host and factor == 1:  # reading it is free on the host
        return None
    return factor


def total_squares(sums_of_buckets: Sequence[Any]) -> Tensor:
    """The sum of |g|^2 over all unprocessed gradients, 0-dim, from the sums of all buckets."""
    totals = [sums.total for sums in sums_of_buckets]
    if len(totals) == 1:
        only: Tensor = totals[0]
        return only
    return torch.stack([x.to(totals[0]) for x in totals]).sum()


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
    rounding_error = NOISE * torch.finfo(squares.dtype).eps * squares
    return mean, torch.where(difference < rounding_error, 0.0, difference)


def pooled_norms(works: Sequence[BucketStep]) -> list[Tensor]:
    """gn of each bucket's tensors, shape (N,): of each tensor, or of the pool that `chaos_scope` defines."""
    gn_of_each = [work.norms / work.bucket.root_numel(work.numel) for work in works]
    pool_of_each, count = pools(works)
    if not pool_of_each:
        return gn_of_each
    first = next(iter(pool_of_each))
    sums = works[first].norms.new_zeros(2, count)  # of the squares and the elements of each pool
    pool_vectors: dict[int, Tensor] = {}
    for i, pool_of_tensors in pool_of_each.items():
        work = works[i]
        numel = work.bucket.numel if work.numel is None else work.numel
        values = torch.stack([work.norms.square(), numel.to(work.norms)])
        pool_vector = work.bucket.cache.tables.vector("pools", pool_of_tensors, torch.int64, sums.device)
        pool_vectors[i] = pool_vector
        if len(set(pool_of_tensors)) == 1:  # always on a GPU, where other additions would have no fixed order
            values = values.sum(1, keepdim=True)
            pool_vector = pool_vector[:1]
        sums = sums.index_add(1, pool_vector, values.to(sums))
    gn_of_pools = root(sums[0]) / root_of_count(sums[1])
    for i, pool_vector in pool_vectors.items():
        gn_of_each[i] = gn_of_pools[pool_vector].to(gn_of_each[i])
    return gn_of_each


def pools(works: Sequence[BucketStep]) -> tuple[dict[int, list[int]], int]:
    """The pool of each tensor, by the position of its bucket, and the number of pools.

    A pool is a group with the scope "group", or all groups with the scope "global".
    """
    numbers: dict[int, int] = {}  # of the pools, by the id of a group; 0 stands for all groups
    pool_of_each: dict[int, list[int]] = {}
    for i, work in enumerate(works):
        scope = work.bucket.group["chaos_scope"]
        if scope == "tensor":
            continue
        pool_of_each[i] = []
        for group in work.bucket.groups:
            key = id(group) if scope == "group" else 0
            pool_of_each[i].append(numbers.setdefault(key, len(numbers)))
    return pool_of_each, len(numbers)


def take_owned(work: BucketStep, gn: Tensor) -> Tensor:
    """The gn of the tensors of a bucket that this process updates, of which it then has mean and scale."""
    bucket = work.bucket
    work.mean = units_of(work.mean, bucket.units, bucket.owned)
    work.scale = units_of(work.scale, bucket.units, bucket.owned)
    return gn[bucket.cache.tables.vector("owned", bucket.owned, torch.int64, gn.device)]


def units_of(by_unit: Tensor | None, units: list[int], chosen: list[int]) -> Tensor | None:
    """The values of the chosen tensors' units, from those of all tensors; None for None."""
    if by_unit is None or len(chosen) == len(units):
        return by_unit
    if not chosen:
        return by_unit[:0]
    parts = by_unit.split(units)
    return torch.cat([parts[i] for i in chosen])
