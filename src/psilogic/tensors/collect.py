"""The tensors of one step, sorted into buckets whose tensors can be treated at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist
from torch.optim import Optimizer

from psilogic.options import NUMBERS_ON_HOST, as_plain
from psilogic.tensors.buckets import Bucket, BucketCache, Group
from psilogic.tensors.norms import TensorList, traced
from psilogic.tensors.sharding import Layout, Piece, Sharding

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Kind(NamedTuple):
    """What the tensors of a bucket have in common."""

    device: torch.device
    dtype: torch.dtype
    ranks: ProcessGroup | None  # the processes that hold pieces of the tensors; None for whole tensors


class Member(NamedTuple):
    """A tensor that takes part in the step."""

    group: Group
    param: Tensor  # as the optimizer has it
    value: Tensor  # this rank's part of it
    grad: Tensor  # this rank's part of the gradient
    piece: Piece | None  # the position of this part; None for a whole tensor
    owned: bool  # whether it is updated here; a tensor without a gradient here only takes part in sums


def collect(optimizer: Optimizer, sharding: Sharding, caches: dict[int, BucketCache]) -> list[Bucket]:
    """The tensors that take part in a step, by merged groups, device, dtype and the ranks that hold pieces of them.

    Those are the tensors with a gradient, and tensors whose pieces have one on another rank.

    Args:
        optimizer: has the parameters in its groups.
        sharding: knows which ranks hold pieces of which parameters.
        caches: the cache of each bucket, by its position; missing ones are added.

    Raises:
        RuntimeError: a gradient is sparse, or a parameter is sharded in a way that hides its tensors.
    """
    groups = optimizer.param_groups
    if not torch.compiler.is_compiling():  # a compiler has NumPy's numbers as tensors
        groups = list(map(as_plain, groups))
    layouts: dict[int, Layout] = {}
    if dist.is_available() and dist.is_initialized():
        every_param, _ = _params_with_groups(groups)
        layouts = sharding.layouts(every_param)
    lists_of_groups = [groups]
    if len(groups) > 1:
        lists_of_groups = merge_groups(groups, optimizer.defaults)
    buckets: list[Bucket] = []
    for merged_groups in lists_of_groups:
        params, group_of_each = _params_with_groups(merged_groups)
        single_bucket = None
        if not layouts:
            single_bucket = _single_bucket(group_of_each, params, _cache_at(len(buckets), caches))
        if single_bucket is not None:
            buckets.append(single_bucket)
            continue
        for kind, members in _by_kind(group_of_each, params, layouts).items():
            buckets.append(_bucket(kind, members, _cache_at(len(buckets), caches)))
    return buckets


def _params_with_groups(groups: Sequence[Group]) -> tuple[list[Tensor], list[Group]]:
    """The parameters of some groups, and the group of each of them."""
    params: list[Tensor] = []
    group_of_each: list[Group] = []
    for group in groups:
        params += group["params"]
        group_of_each += [group] * len(group["params"])
    return params, group_of_each


def _cache_at(position: int, caches: dict[int, BucketCache]) -> BucketCache:
    """The cache of the bucket at a position; a new one the first time."""
    if position not in caches:
        caches[position] = BucketCache()
    return caches[position]


def _single_bucket(groups: list[Group], params: list[Tensor], cache: BucketCache) -> Bucket | None:
    """The bucket of the parameters with a gradient, if none is sparse, and device and dtype are the same.

    Otherwise None. A single bucket is the usual case, and found several times as fast as by `_by_kind`.
    """
    group_of_each: list[Group] = []
    with_gradient: list[Tensor] = []
    grads: TensorList = []
    for group, p in zip(groups, params, strict=True):
        grad = p.grad
        if grad is None:
            continue
        first = with_gradient[0] if with_gradient else p
        if grad.is_sparse or p.dtype != first.dtype or p.device != first.device:
            return None
        group_of_each.append(group)
        with_gradient.append(p)
        grads.append(grad)
    if not with_gradient:
        return None
    first = with_gradient[0]
    return Bucket(
        groups=group_of_each,
        device=first.device,
        dtype=first.dtype,
        ranks=None,
        cache=cache,
        params=with_gradient,
        values=with_gradient,
        grads=grads,
        pieces=[None] * len(with_gradient),
        owned=list(range(len(with_gradient))),
    )


def _by_kind(groups: list[Group], params: list[Tensor], layouts: dict[int, Layout]) -> dict[Kind, list[Member]]:
    """The tensors that take part in the step, by what the tensors of a bucket have in common.

    Args:
        groups: the group of each parameter.
        params: the parameters.
        layouts: this rank's parts of the parameters of which ranks hold pieces, by the id of the parameter.

    Raises:
        RuntimeError: a gradient is sparse.
    """
    by_kind: dict[Kind, list[Member]] = {}
    for group, p in zip(groups, params, strict=True):
        layout = layouts.get(id(p))
        if layout is not None:
            kind = Kind(p.device, p.dtype, layout.ranks)
            owned = p.grad is not None
            member = Member(group, p, layout.value, layout.grad, layout.piece, owned)
        elif p.grad is not None:
            kind = Kind(p.device, p.dtype, ranks=None)
            member = Member(group, p, p, p.grad, piece=None, owned=True)
        else:
            continue
        if member.grad.is_sparse:
            raise RuntimeError("PsiLogic does not support sparse gradients; use sparse=False in the embedding")
        by_kind.setdefault(kind, []).append(member)
    return by_kind


def _bucket(kind: Kind, members: list[Member], cache: BucketCache) -> Bucket:
    """The bucket of tensors of one kind."""
    groups: list[Group] = []
    params: TensorList = []
    values: TensorList = []
    grads: TensorList = []
    pieces: list[Piece | None] = []
    owned: list[int] = []
    for i, member in enumerate(members):
        groups.append(member.group)
        params.append(member.param)
        values.append(member.value)
        grads.append(member.grad)
        pieces.append(member.piece)
        if member.owned:
            owned.append(i)
    return Bucket(
        groups=groups,
        device=kind.device,
        dtype=kind.dtype,
        ranks=kind.ranks,
        cache=cache,
        params=params,
        values=values,
        grads=grads,
        pieces=pieces,
        owned=owned,
    )


def merge_groups(groups: Sequence[Group], names: Iterable[str]) -> list[list[Group]]:
    """Lists of the groups of an optimizer that may share a bucket; a group that is not merged is alone in its list.

    Groups are merged where calls for each group cost more than elements: on the host, and where Triton updates them.

    Args:
        groups: the groups.
        names: the names of all options.
    """
    if traced():
        return [[group] for group in groups]
    shared_names = [name for name in names if name not in NUMBERS_ON_HOST]
    shared_values = itemgetter(*shared_names)
    by_key: dict[Any, list[Group]] = {}
    for i, group in enumerate(groups):
        also_shared = _shared_besides(group)
        key: Any = i  # no other group has this key
        if also_shared is not None:
            key = (*shared_values(group), *also_shared)
        by_key.setdefault(key, []).append(group)
    return list(by_key.values())


def _shared_besides(group: Group) -> tuple[Any, ...] | None:
    """What groups that are merged with this one share besides the options that are vectors nowhere.

    Nothing on the host; `betas` and `eps` where Triton updates them; None if no group is merged with this one.
    """
    params = group["params"]
    if not params:
        return None
    tensor_numbers: list[Tensor] = []
    for name in ("lr", "weight_decay"):
        if isinstance(group[name], Tensor):
            tensor_numbers.append(group[name])
    if all(map(attrgetter("is_cpu"), (*params, *tensor_numbers))):  # where vectors may be read as numbers
        return ()
    if not params[0].is_cuda or tensor_numbers or group["chaos_scope"] != "tensor":
        return None
    if group["fused"] is False or group["bf16_update"] != "nearest":  # these are updated by foreach
        return None
    return (*group["betas"], group["eps"])
