"""The short text that a terminal or a notebook shows of an optimizer."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

ALWAYS = ("lr", "weight_decay")
"""Hyperparameters that are shown also where they have their default."""
MOST_GROUPS = 8
"""Groups that have a line of their own."""


def describe(optimizer: Optimizer, kind: type) -> str:
    """The hyperparameters that are not the defaults of the class `kind`, and a line for each group of several."""
    defaults = {name: p.default for name, p in signature(kind).parameters.items() if p.default is not p.empty}
    groups: Sequence[Mapping[str, Any]] = optimizer.param_groups
    same = [name for name in defaults if all(_equal(group[name], groups[0][name]) for group in groups)]
    told = _options(groups[0], [x for x in same if x in ALWAYS or not _equal(groups[0][x], defaults[x])])
    first = f"{type(optimizer).__name__}({told})"
    if len(groups) == 1:
        return f"{first[:-1]}, {_tensors(groups[0])})"
    lines = [
        f"  {group.get('name', i)}: {_tensors(group)}, {_options(group, [x for x in defaults if x not in same])}"
        for i, group in enumerate(groups[:MOST_GROUPS])
    ]
    lines += [f"  and {len(groups) - MOST_GROUPS} more groups"] * (len(groups) > MOST_GROUPS)
    return "\n".join([first, *(line.removesuffix(", ") for line in lines)])


def _equal(a: Any, b: Any) -> bool:
    """Whether two values are the same number, text or tuple; tensors are the same only as objects."""
    return a is b or (type(a) is type(b) and isinstance(a, float | int | str | tuple | list) and a == b)


def _options(group: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name}={float(group[name]):g}" if name == "lr" else f"{name}={group[name]!r}" for name in names)


def _tensors(group: Mapping[str, Any]) -> str:
    params = group["params"]
    count = "1 tensor" if len(params) == 1 else f"{len(params)} tensors"
    if any(map(is_lazy, params)):
        return f"{count}, some without a shape yet"
    return f"{count} of {sum(p.numel() for p in params):,} elements"
