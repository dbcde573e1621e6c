"""The scalars of many states (clocks and the detector's memory) as vectors over the tensors.

Each is a 0-dim tensor with memory of its own, as in torch's optimizers: it may be moved, released or shared alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.tensors.norms import transformed

State = dict[str, Any]
"""The state of a parameter, as in `torch.optim.Optimizer.state`."""
CLOCKS = ("step", "chaos_start")
"""Per-parameter counts of steps: of the parameter, and at the start of the detector."""


class ScalarKind(NamedTuple):
    """What the scalars of one name have in common."""

    dtype: torch.dtype
    device: torch.device


_dtype_and_device = attrgetter(*ScalarKind._fields)


def scalar_kinds(states: Sequence[State], names: Sequence[str]) -> list[ScalarKind | None]:
    """For each name what the states' scalars have in common; None if they differ in it."""
    common: list[ScalarKind | None] = []
    for name in names:
        found = set(map(_dtype_and_device, map(itemgetter(name), states)))
        common.append(ScalarKind(*found.pop()) if len(found) == 1 else None)
    return common


def read(states: Sequence[State], names: Sequence[str]) -> dict[str, Tensor]:
    """The named scalars of each state, each of shape (N,)."""
    if not states:
        return {name: torch.empty(0) for name in names}
    vectors = {}
    for name in names:
        scalars = [state[name] for state in states]
        if any(map(Tensor.dim, scalars)):  # a user's own count may have the shape (1,)
            scalars = [x.reshape(()) for x in scalars]
        vectors[name] = torch.stack(scalars)
    return vectors


def write_(states: Sequence[State], scalars: dict[str, Tensor]) -> None:
    """Set the named scalars of each state, from vectors of shape (N,): none is replaced."""
    copies: dict[tuple[torch.device, torch.dtype], tuple[list[Tensor], list[Tensor]]] = {}  # each kind is one launch
    for name, values in scalars.items():
        targets, sources = copies.setdefault((values.device, values.dtype), ([], []))
        targets += [state[name] for state in states]
        sources += values.unbind()
    for targets, sources in copies.values():
        if torch.is_grad_enabled() or transformed():  # `_foreach_copy_` has no derivative
            for target, source in zip(targets, sources, strict=True):
                target.copy_(source)
        elif targets:
            torch._foreach_copy_(targets, sources)


def detector_dtype(param: Tensor) -> torch.dtype:
    """The dtype of the detector's scalars: float64 for float64 parameters, otherwise float32."""
    if param.dtype in (torch.float64, torch.complex128):
        return torch.float64
    return torch.float32


def memory_names(group: dict[str, Any]) -> list[str]:
    """The names of the detector's memory in the states of a group's parameters."""
    if group["chaos_signal"] == "relative":
        return ["chaos_fast", "chaos_slow", "chaos_ref"]
    return ["chaos_fast", "chaos_slow"]


def scalar_names(group: dict[str, Any]) -> tuple[str, ...]:
    """The names of all scalars in the states of a group's parameters: the clocks, then the detector's memory."""
    return (*CLOCKS, *memory_names(group))
