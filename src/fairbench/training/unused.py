"""The parts of an optimizer that take no part in a training: state that never changes, and methods that nobody calls.

The training loops of some authors also call other methods than `step`, such as `update_hessian`. Without these calls
the optimizer trains as another method.
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
READ_BY_FAIRBENCH = ("mechanism", "quantities")
"""Methods of an optimizer's mechanism, which fairbench calls."""
Marks = Mapping[str, list[float]]
"""Numbers that change with the tensors of the state, for each key of the state."""


def marks(optimizer: torch.optim.Optimizer) -> Marks:
    """The sums and norms of the tensors in the state that have several numbers, by key. This waits for the device."""
    marks_of_key: dict[str, list[float]] = {}
    for state in list(optimizer.state.values()):
        if not isinstance(state, Mapping):
            continue
        for key, value in state.items():
            if _has_numbers(value):
                marks_of_key.setdefault(str(key), []).extend(_sum_and_norm(value))
    return marks_of_key


def _has_numbers(value: Any) -> bool:
    """Whether a value is a dense tensor of several floating-point numbers."""
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        return False
    return value.is_floating_point() and value.numel() > 1


def _sum_and_norm(tensor: Tensor) -> list[float]:
    """The sum and the norm of a tensor, in float32 or in its own wider dtype."""
    values = tensor.detach()
    # not float64: that would need a copy of the tensor, and the peak of memory is measured
    wide = torch.promote_types(tensor.dtype, torch.float32)
    total = values.sum(dtype=wide)
    norm = torch.linalg.vector_norm(values, dtype=wide)
    numbers: list[float] = torch.stack((total, norm)).tolist()
    return numbers


def unused(optimizer: torch.optim.Optimizer, called: Collection[str], first: Marks | None, steps: int) -> list[str]:
    """The parts of an optimizer that took no part in a training, in words: first states, then methods.

    Args:
        optimizer: the optimizer after the training.
        called: the names of the methods that the training loop calls.
        first: the marks after the first step. None for no check, as for an optimizer of the registry.
        steps: the number of steps of the training.
    """
    if first is None:
        return []
    return [*_idle_states(first, marks(optimizer), steps), *_idle_methods(optimizer, called)]


def _idle_states(first: Marks, last: Marks, steps: int) -> list[str]:
    """The states that did not change between two marks, in words."""
    words = []
    for key, first_marks in first.items():
        if last.get(key) == first_marks:
            value = "the same" if any(first_marks) else "0"
            words.append(f"state {key!r} stays {value} in {steps} steps")
    return words


def _idle_methods(optimizer: torch.optim.Optimizer, called: Collection[str]) -> list[str]:
    """The public methods of an optimizer's own classes that neither the loop nor other methods call, in words."""
    own_classes = [cls for cls in type(optimizer).__mro__ if cls.__module__.partition(".")[0] not in KNOWN]
    own_classes.reverse()  # the methods of base classes come first
    methods: dict[str, None] = {}
    used = {*called, *READ_BY_FAIRBENCH, *dir(torch.optim.Optimizer)}
    for cls in own_classes:
        for name, member in vars(cls).items():
            if inspect.isfunction(member):
                methods[name] = None
            used.update(_names_in(_code_of(member)))
    return [f"{name}() is never called" for name in methods if not name.startswith("_") and name not in used]


def _code_of(member: Any) -> Any:
    """The code of a member of a class, if it is a function or a property; otherwise None."""
    function = getattr(member, "fget", member)  # the function of a property
    return getattr(inspect.unwrap(function), "__code__", None)


def _names_in(code: Any) -> Iterator[str]:
    """The names that code refers to, with those of the functions defined in it. None if it is no code."""
    if not isinstance(code, CodeType):
        return
    yield from code.co_names
    for constant in code.co_consts:
        yield from _names_in(constant)  # the code of an inner function is a constant of the outer one
