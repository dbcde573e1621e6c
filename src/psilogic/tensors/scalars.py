"""The scalars of many states (clocks and the detector's memory) as vectors over the tensors."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.tensors.device_tables import capturing, host, upload
from psilogic.tensors.memory import addresses
from psilogic.tensors.norms import traced

State = dict[str, Any]
"""The state of a parameter, as in `torch.optim.Optimizer.state`."""
CLOCKS = ("step", "chaos_start")
"""Per-parameter counts of steps: of the parameter, and at the start of the detector."""


class Shared(NamedTuple):
    """Scalars that lie in the memory of one vector."""

    vector: Tensor
    positions: Tensor | None  # of the scalars in the vector; None if they are all of it, in this order


class Scalars:
    """Reads and writes scalars of many states at once, and never replaces one.

    Each state has 0-dim tensors, as in torch's optimizers: a CUDA graph, another process or a caller may hold them.
    Those that started or were loaded together are views of one vector, and are read and written in it. Others (given
    by a caller, moved by `x.data = ...`) are copied one by one.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._addresses: Any = ()  # no array: a compiler cannot trace it
        self._found: dict[str, Shared | None] = {}  # by name, for scalars of these names at these addresses
        self._in_step: dict[str, Shared | None] = {}  # what `read` found, for `write`
        self._captured: list[Any] = []  # graphs read it at each replay
        self._copies: list[Tensor] = []  # kernels read them

    def read(self, states: list[State], names: tuple[str, ...]) -> dict[str, Tensor]:
        """The named scalars of each state, each of shape (N,)."""
        if not states:
            return {name: torch.empty(0) for name in names}
        if traced():  # a compiler and autograd do not see memory that tensors share
            return {name: _stacked(states, name) for name in names}
        read = {}
        for name, shared in self._find(states, names).items():
            if shared is None:
                read[name] = _stacked(states, name)
            elif shared.positions is None:
                read[name] = shared.vector
            else:
                read[name] = shared.vector.index_select(0, shared.positions)
        return read

    def addresses_of(
        self, states: list[State], names: tuple[str, ...], dtypes: Sequence[torch.dtype]
    ) -> tuple[bool, array[int]]:
        """The addresses of each of the named scalars, name after name, in the dtypes given for the names.

        The first result is False if they are those of copies, since some do not share memory or have other dtypes.
        """
        in_place = True
        for shared, dtype in zip(self._find(states, names).values(), dtypes, strict=True):
            if shared is None or shared.vector.dtype != dtype:
                in_place = False
        if in_place:
            return True, self._addresses
        read = self.read(states, names)
        self._copies = [vector.to(dtype) for vector, dtype in zip(read.values(), dtypes, strict=True)]
        copied: list[Tensor] = []
        for copy in self._copies:
            copied += copy.unbind()
        return False, addresses(copied)

    def write(self, states: list[State], scalars: dict[str, Tensor]) -> None:
        """Set scalars that were read in this step; they may be vectors of `read` that were changed in place."""
        apart = traced()
        copies: dict[tuple[torch.device, torch.dtype], list[tuple[Tensor, Tensor]]] = {}  # each kind is one launch
        for name, values in scalars.items():
            pairs = copies.setdefault((values.device, values.dtype), [])
            shared = None if apart else self._in_step[name]
            if shared is None:
                pairs += zip(_named(states, name), values.unbind(), strict=True)
            elif shared.positions is not None:
                shared.vector.index_copy_(0, shared.positions, values.to(shared.vector))
            elif values is not shared.vector:
                pairs.append((shared.vector, values))
        for pairs in copies.values():
            _copy_pairs_(pairs)

    def _find(self, states: list[State], names: tuple[str, ...]) -> dict[str, Shared | None]:
        """By name the vector that the scalars are elements of; None where they do not share one."""
        now_at = addresses(states, names)
        in_graph = capturing() and any(states[0][name].is_cuda for name in names)
        if self._names == names and self._addresses == now_at:
            self._in_step = self._found
        elif in_graph:  # positions would have to be copied to the device
            self._in_step = dict.fromkeys(names)
        else:
            self._names = names
            self._addresses = now_at
            self._found = {name: _shared(_named(states, name)) for name in names}
            self._in_step = self._found
        if in_graph:
            self._captured.append(self._in_step)
        return self._in_step


def _named(states: list[State], name: str) -> list[Tensor]:
    """The scalar of a name in each state."""
    return [state[name] for state in states]


def _stacked(states: list[State], name: str) -> Tensor:
    return torch.stack(_named(states, name))


def _copy_pairs_(pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Copy to the first tensor of each pair from the second."""
    if not pairs:
        return
    if torch.is_grad_enabled():  # `_foreach_copy_` has no derivative
        for target, source in pairs:
            target.copy_(source)
        return
    targets = [target for target, _ in pairs]
    sources = [source for _, source in pairs]
    torch._foreach_copy_(targets, sources)


def _shared(scalars: list[Tensor]) -> Shared | None:
    """The vector whose memory 0-dim tensors share, and their positions in it; None if they share none."""
    first = scalars[0]
    storage = first.untyped_storage()
    positions: list[int] = []
    for scalar in scalars:
        if scalar.untyped_storage()._cdata != storage._cdata or scalar.dtype != first.dtype:
            return None
        positions.append(int(scalar.storage_offset()))
    if not storage.nbytes() or len(set(positions)) < len(positions):  # without memory torch raises
        return None
    begin = positions[0]
    if positions == list(range(begin, begin + len(positions))):
        return Shared(first.as_strided((len(positions),), (1,), begin), None)
    whole = first.as_strided((storage.nbytes() // first.itemsize,), (1,), 0)
    return Shared(whole, upload("positions", host(positions), first.device))


def join(states: Iterable[State], names: Iterable[str]) -> None:
    """Make the scalars of each name views of one vector; those on another device, or of another dtype, of another."""
    kinds: dict[Any, list[State]] = {}
    for state, name in product(states, names):
        scalar = state.get(name)
        if isinstance(scalar, Tensor):
            kinds.setdefault((name, scalar.device, scalar.dtype), []).append(state)
    for (name, _, _), members in kinds.items():
        views = _stacked(members, name).unbind()
        for state, view in zip(members, views, strict=True):
            state[name] = view


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
