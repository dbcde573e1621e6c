"""What of an optimizer takes no part in a training: state that never changes, and methods that nobody calls.

Some authors' loops call more than `step`, as `update_hessian`. Without it the optimizer trains as another method.
"""

import inspect
import sys
from collections.abc import Collection, Iterator, Mapping
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from fairbench.common.imports import LIBRARIES

KNOWN = {"torch", "psilogic", "fairbench", *LIBRARIES, *sys.stdlib_module_names}
"""Packages whose methods need not be called."""
Marks = Mapping[str, list[float]]
"""For each key of a state numbers that change with its tensors."""


def marks(optimizer: torch.optim.Optimizer) -> Marks:
    """Sum and norm of every tensor of floating-point numbers in the state, by key; this waits for the device."""
    found: dict[str, list[float]] = {}
    for state in list(optimizer.state.values()):
        if not isinstance(state, Mapping):
            continue
        for key, value in state.items():
            if _is_floating(value):
                found.setdefault(str(key), []).extend(_sum_and_norm(value))
    return found


def _is_floating(value: Any) -> bool:
    """Whether a value is a dense tensor of several floating-point numbers."""
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        return False
    return value.is_floating_point() and value.numel() > 1


def _sum_and_norm(tensor: Tensor) -> list[float]:
    values = tensor.detach()
    wide = torch.promote_types(tensor.dtype, torch.float32)  # no copy in float64: the peak of memory is measured
    total = values.sum(dtype=wide)
    norm = torch.linalg.vector_norm(values, dtype=wide)
    numbers: list[float] = torch.stack((total, norm)).tolist()
    return numbers


def unused(optimizer: torch.optim.Optimizer, called: Collection[str], first: Marks | None, steps: int) -> list[str]:
    """What of an optimizer took no part, in words, first of its state since the `first` marks; nothing without them."""
    if first is None:
        return []
    return [*_idle_states(first, marks(optimizer), steps), *_idle_methods(optimizer, called)]


def _idle_states(first: Marks, last: Marks, steps: int) -> list[str]:
    """The states that did not change between two marks, in words."""
    words = []
    for key, of_key in first.items():
        if last.get(key) == of_key:
            value = "the same" if any(of_key) else "0"
            words.append(f"state {key!r} stays {value} in {steps} steps")
    return words


def _idle_methods(optimizer: torch.optim.Optimizer, called: Collection[str]) -> list[str]:
    """The public methods of an optimizer's own classes that neither the loop nor their code calls, in words."""
    own_classes = [cls for cls in type(optimizer).__mro__ if cls.__module__.partition(".")[0] not in KNOWN]
    methods: dict[str, None] = {}
    used = {*called, "mechanism", "quantities", *dir(torch.optim.Optimizer)}
    for cls in reversed(own_classes):
        for name, member in vars(cls).items():
            if inspect.isfunction(member):
                methods[name] = None
            getter = getattr(member, "fget", member)  # the function of a property
            code = getattr(inspect.unwrap(getter), "__code__", None)
            used.update(_names_in(code))
    return [f"{name}() is never called" for name in methods if not name.startswith("_") and name not in used]


def _names_in(code: Any) -> Iterator[str]:
    """The names that code and the functions in it refer to."""
    if isinstance(code, CodeType):
        yield from code.co_names
        for each in code.co_consts:
            yield from _names_in(each)
