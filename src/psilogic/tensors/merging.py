"""Parameter groups that differ only in some numbers: their tensors are treated at once."""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from psilogic.tensors.norms import traced

Group = dict[str, Any]
"""The hyperparameters, as in `torch.optim.Optimizer.param_groups`."""
NUMBERS = ("lr", "weight_decay", "gamma", "p_ext", "max_cancel", "tau_scale", "chaos_tau")
"""Hyperparameters that may be vectors over the tensors; all others are the same in a merged group."""


def together(groups: Sequence[Group], names: Iterable[str]) -> list[list[int]]:
    """The positions of the groups by what they have in common; those that are not merged are alone.

    Groups are merged where calls for each group cost more than elements: on the host, and where Triton updates them.

    Args:
        groups: of one optimizer.
        names: of the hyperparameters.
    """
    if len(groups) == 1 or traced():
        return [[i] for i in range(len(groups))]
    common = itemgetter(*(name for name in names if name not in (*NUMBERS, "betas")))
    merged: dict[Any, list[int]] = {}
    for i, group in enumerate(groups):
        key = (*common(group), *group["betas"], _contiguous(group["params"])) if _can_share(group) else i
        merged.setdefault(key, []).append(i)
    return list(merged.values())


def _contiguous(params: Sequence[Tensor]) -> bool:
    """Whether the tensors are contiguous: the kernels update a bucket only if they support every layout in it."""
    try:
        return all(map(Tensor.is_contiguous, params))
    except ValueError:  # a lazy module's, without a shape yet
        return False


def _can_share(group: Group) -> bool:
    """Whether vectors may replace the group's numbers, and no decision depends on the other tensors of the group."""
    params = group["params"]
    tensors = isinstance(group["lr"], Tensor) or isinstance(group["weight_decay"], Tensor)
    if not params or tensors or group["chaos_scope"] != "tensor":
        return False
    in_foreach = group["foreach"] is not None or group["fused"] is False or group["bf16_update"] != "nearest"
    return params[0].device.type == "cpu" or (params[0].is_cuda and not in_foreach)


def merged(groups: Sequence[Group]) -> Group:
    """The hyperparameters of N tensors: those of a group, or a copy with vectors, shape (N,), where the groups differ.

    Args:
        groups: that of each tensor, at least one; those of the same group are adjacent.
    """
    first, decay = groups[0], groups[0]["weight_decay"]
    if isinstance(decay, Tensor) and decay.device.type == "cpu" and not traced():
        return {**first, "weight_decay": float(decay)}  # such groups are not merged
    if groups[-1] is first:
        return first
    numbers = {name: list(map(itemgetter(name), groups)) for name in NUMBERS}
    differing = {name: values for name, values in numbers.items() if values.count(values[0]) < len(values)}
    vectors = {name: torch.tensor(x, dtype=torch.float64, device="cpu") for name, x in differing.items()}
    return {**first, **vectors} if vectors else first
