"""The scalars in the states of many tensors, as vectors over the tensors."""

from __future__ import annotations

from array import array
from typing import Any

import torch
from torch import Tensor

from psilogic.tensors.device_tables import capturing
from psilogic.tensors.memory import addresses
from psilogic.tensors.norms import copy_, traced

State = dict[str, Any]


class Scalars:
    """Reads and writes scalars of many states at once.

    Each state has a 0-dim tensor, as in torch's optimizers. Those of one list of states are made views of one
    vector, so that later steps need not gather or scatter them. When one of them has another address (it was loaded,
    moved by `x.data = ...`, or new in the list), all become views of a new vector.
    """

    def __init__(self) -> None:
        self._vectors: dict[str, tuple[Tensor, array[int]]] = {}

    def read(self, states: list[State], name: str) -> Tensor:
        """The scalar of each state, shape (N,)."""
        vector = self._current(states, name)
        if vector is None:
            vector = torch.stack([state[name] for state in states]) if states else torch.empty(0)
            # A compiler and autograd do not see memory that tensors share; a graph is bound to the memory it captured.
            if states and not traced() and not capturing():
                for state, view in zip(states, vector.unbind(), strict=True):
                    state[name] = view
                self._vectors[name] = vector, addresses(states, name)
        return vector

    def write(self, states: list[State], scalars: dict[str, Tensor]) -> None:
        """Set scalars by name, each of shape (N,); they may be vectors of `read` that were changed in place."""
        copies: dict[tuple[torch.device, torch.dtype], list[tuple[Tensor, Tensor]]] = {}  # each kind is one launch
        for name, values in scalars.items():
            of_kind = copies.setdefault((values.device, values.dtype), [])
            if traced() or (capturing() and self._current(states, name) is None):
                of_kind += zip([state[name] for state in states], values.unbind(), strict=True)
            elif values is not self._vectors[name][0]:
                of_kind.append((self._vectors[name][0], values))
        for pairs in filter(None, copies.values()):
            copy_(*map(list, zip(*pairs, strict=True)))

    def _current(self, states: list[State], name: str) -> Tensor | None:
        """The vector that the scalars are views of."""
        if traced() or name not in self._vectors:
            return None
        vector, places = self._vectors[name]
        return vector if addresses(states, name) == places else None
