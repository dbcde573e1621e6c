"""The scalars in the states of many tensors, as vectors over the tensors."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from psilogic.tensors.device_tables import capturing, host, upload
from psilogic.tensors.memory import addresses
from psilogic.tensors.norms import copy_, traced

State = dict[str, Any]


class Scalars:
    """Reads and writes scalars of many states at once, and never replaces one.

    Each state has 0-dim tensors, as in torch's optimizers: a CUDA graph, another process or a caller may hold them.
    Those that started or were loaded together are views of one vector, and are read and written in it. Others (given
    by a caller, moved by `x.data = ...`) are copied one by one.
    """

    def __init__(self) -> None:
        self._found: dict[str, tuple[array[int], tuple[Tensor, Tensor | None] | None]] = {}
        self._captured: list[Any] = []  # graphs read it at each replay

    def read(self, states: list[State], name: str) -> Tensor:
        """The scalar of each state, shape (N,)."""
        if (found := self._find(states, name)) is None:
            return torch.stack([state[name] for state in states]) if states else torch.empty(0)
        vector, positions = found
        return vector if positions is None else vector.index_select(0, positions)

    def write(self, states: list[State], scalars: dict[str, Tensor]) -> None:
        """Set scalars by name, each of shape (N,); they may be vectors of `read` that were changed in place."""
        copies: dict[tuple[torch.device, torch.dtype], list[tuple[Tensor, Tensor]]] = {}  # each kind is one launch
        for name, values in scalars.items():
            of_kind = copies.setdefault((values.device, values.dtype), [])
            if (found := self._find(states, name)) is None:
                of_kind += zip([state[name] for state in states], values.unbind(), strict=True)
            elif found[1] is not None:
                found[0].index_copy_(0, found[1], values.to(found[0]))
            elif values is not found[0]:
                of_kind.append((found[0], values))
        for pairs in filter(None, copies.values()):
            copy_(*map(list, zip(*pairs, strict=True)))

    def _find(self, states: list[State], name: str) -> tuple[Tensor, Tensor | None] | None:
        """The vector that the scalars are elements of and their positions in it, None for all; None without one."""
        if traced() or not states:  # a compiler and autograd do not see memory that tensors share
            return None
        places, in_graph = addresses(states, name), states[0][name].is_cuda and capturing()
        if name not in self._found or self._found[name][0] != places:
            if in_graph:  # positions would have to be copied to the device
                return None
            self._found[name] = places, _shared([state[name] for state in states])
        if in_graph:
            self._captured.append(self._found[name][1])
        return self._found[name][1]


def _shared(scalars: list[Tensor]) -> tuple[Tensor, Tensor | None] | None:
    """The memory that 0-dim tensors share, as a vector, and their positions in it, None for all; or None."""
    first, storage = scalars[0], scalars[0].untyped_storage()
    positions = [int(x.storage_offset()) for x in scalars]
    together = all(x.untyped_storage()._cdata == storage._cdata and x.dtype == first.dtype for x in scalars)
    if not together or len(set(positions)) < len(positions):
        return None
    begin, end = positions[0], positions[0] + len(positions)
    if positions == list(range(begin, end)):
        return first.as_strided((len(positions),), (1,), begin), None
    whole = first.as_strided((storage.nbytes() // first.itemsize,), (1,), 0)
    return whole, upload("positions", host(positions), first.device)


def join(states: Iterable[State], names: Iterable[str]) -> None:
    """Make the scalars of each name views of one vector; those on another device, or of another dtype, of another."""
    kept = list(states)
    for name in names:
        kinds: dict[tuple[torch.device, torch.dtype], list[State]] = {}
        for state in kept:
            if isinstance(x := state.get(name), Tensor):
                kinds.setdefault((x.device, x.dtype), []).append(state)
        for members in kinds.values():
            vector = torch.stack([state[name] for state in members])
            for state, view in zip(members, vector.unbind(), strict=True):
                state[name] = view
