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
    for state in [*optimizer.state.values()]:
        for key, x in state.items() if isinstance(state, Mapping) else ():
            if isinstance(x, Tensor) and x.is_floating_point() and x.numel() > 1 and x.layout == torch.strided:
                wide = torch.promote_types(x.dtype, torch.float32)  # no copy in float64: the peak of memory is measured
                numbers = x.detach().sum(dtype=wide), torch.linalg.vector_norm(x.detach(), dtype=wide)
                found.setdefault(str(key), []).extend(torch.stack(numbers).tolist())
    return found


def unused(optimizer: torch.optim.Optimizer, called: Collection[str], first: Marks | None, steps: int) -> list[str]:
    """What of an optimizer took no part, in words, first of its state since the `first` marks; nothing without them."""
    if first is None:
        return []
    last = marks(optimizer)
    still = {key: "the same" if any(of_key) else "0" for key, of_key in first.items() if last.get(key) == of_key}
    states = [f"state {key!r} stays {value} in {steps} steps" for key, value in still.items()]
    own = [cls for cls in type(optimizer).__mro__ if cls.__module__.partition(".")[0] not in KNOWN]
    functions = {name: x for cls in reversed(own) for name, x in vars(cls).items() if inspect.isfunction(x)}
    names = {*called, "mechanism", "quantities", *dir(torch.optim.Optimizer)}
    for x in (x for cls in own for x in vars(cls).values()):
        names |= {*_names_in(getattr(inspect.unwrap(getattr(x, "fget", x)), "__code__", None))}
    idle = [name for name in functions if not name.startswith("_") and name not in names]
    return [*states, *(f"{name}() is never called" for name in idle)]


def _names_in(code: Any) -> Iterator[str]:
    """The names that code and the functions in it refer to."""
    if isinstance(code, CodeType):
        yield from code.co_names
        for each in code.co_consts:
            yield from _names_in(each)
