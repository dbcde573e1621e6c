"""The short text that a terminal or a notebook shows of an optimizer."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

ALWAYS = ("lr", "weight_decay")
"""Hyperparameters that are shown also where they have their default."""
MOST_GROUPS = 8
"""Groups that have a line of their own."""


def describe(optimizer: Optimizer, defaults: Mapping[str, Any]) -> str:
    """The hyperparameters that are not the given defaults, and a line for each group of several."""
    groups: Sequence[Mapping[str, Any]] = optimizer.param_groups
    kind_name = type(optimizer).__name__
    if not groups:
        return f"{kind_name}(without parameter groups)"
    first = groups[0]
    shared = []  # hyperparameters that all groups have in common
    differing = []
    for name in defaults:
        if all(_equal(group.get(name), first.get(name)) for group in groups):
            shared.append(name)
        else:
            differing.append(name)
    shown = [name for name in shared if name in ALWAYS or not _equal(first.get(name), defaults[name])]
    if len(groups) == 1:
        return f"{kind_name}({_options(first, shown)}, {_tensors(first)})"

    lines = [f"{kind_name}({_options(first, shown)})"]
    for i, group in enumerate(groups[:MOST_GROUPS]):
        line = f"  {group.get('name', i)}: {_tensors(group)}"
        if differing:
            line += f", {_options(group, differing)}"
        lines.append(line)
    if len(groups) > MOST_GROUPS:
        lines.append(f"  and {len(groups) - MOST_GROUPS} more groups")
    return "\n".join(lines)


def _equal(a: Any, b: Any) -> bool:
    """Whether two values are the same number, text or tuple; tensors are the same only as objects."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, float | int | str | tuple | list):
        return False
    return bool(a == b)


def _options(group: Mapping[str, Any], names: Sequence[str]) -> str:
    """Some hyperparameters of a group, as in a call."""
    options = []
    for name in names:
        value = group.get(name)  # a group that was appended by hand may lack one
        text = repr(value)
        if name == "lr":  # it may be a tensor
            with suppress(TypeError, ValueError, RuntimeError):  # or have no number, as a meta tensor
                text = f"{float(value):g}"  # type: ignore[arg-type]
        options.append(f"{name}={text}")
    return ", ".join(options)


def _tensors(group: Mapping[str, Any]) -> str:
    """How many tensors and elements a group has."""
    params = group["params"]
    count = "1 tensor" if len(params) == 1 else f"{len(params)} tensors"
    if any(map(is_lazy, params)):
        return f"{count}, some without a shape yet"
    elements = sum(param.numel() for param in params)
    return f"{count} of {elements:,} elements"
