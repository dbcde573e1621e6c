"""What of an optimizer takes no part in a training: state that never changes, and methods that nobody calls.

Some authors' loops call more than `step`, as `update_hessian` every ten steps. Without it the optimizer still trains,
as another method than the one that its name promises.
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
"""Packages whose methods are known to be used as they are meant."""
OF_MECHANISM = ("mechanism", "quantities")
Marks = Mapping[str, list[float]]
"""For each key of a state numbers that change with its tensors."""


def marks(optimizer: torch.optim.Optimizer) -> Marks:
    """Sum and norm of every tensor of the state of floating-point numbers, by key; this waits for the device."""
    found: dict[str, list[Tensor]] = {}
    for state in optimizer.state.values():
        for key, x in state.items():
            if isinstance(x, Tensor) and x.is_floating_point() and x.numel() > 1:
                found.setdefault(str(key), []).extend([x.detach().double().sum(), x.detach().double().norm()])
    return {key: torch.stack(of_key).tolist() for key, of_key in found.items()}


def unused(optimizer: torch.optim.Optimizer, called: Collection[str], first: Marks, steps: int) -> list[str]:
    """What of an optimizer took no part, in words; what its state lacks comes first.

    Args:
        called: the methods that the loop calls, apart from those of `torch.optim.Optimizer`.
        first: the marks after the first step.
        steps: that were taken.
    """
    last = marks(optimizer)
    still = {key: any(of_key) for key, of_key in first.items() if last.get(key) == of_key}
    states = [f"state {key!r} stays {'the same' if kept else '0'} in {steps} steps" for key, kept in still.items()]
    return [*states, *(f"{name}() is never called" for name in _uncalled(type(optimizer), called))]


def _uncalled(kind: type, called: Collection[str]) -> list[str]:
    """The public methods of a class whose names appear neither in its code nor among those that are called."""
    own = [cls for cls in kind.__mro__ if cls.__module__.partition(".")[0] not in KNOWN]
    functions = {name: x for cls in reversed(own) for name, x in vars(cls).items() if inspect.isfunction(x)}
    names = {*called, *OF_MECHANISM, *dir(torch.optim.Optimizer)}
    for cls in own:
        for x in vars(cls).values():
            names |= {*_names_in(getattr(inspect.unwrap(getattr(x, "fget", x)), "__code__", None))}
    return [name for name in functions if not name.startswith("_") and name not in names]


def _names_in(code: Any) -> Iterator[str]:
    """The names that code and the functions in it refer to."""
    if isinstance(code, CodeType):
        yield from code.co_names
        for each in code.co_consts:
            yield from _names_in(each)
