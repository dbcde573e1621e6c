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

    Each state has its own 0-dim tensor, as torch's optimizers have. Those of one list of states are made views of one
    vector, so that nothing is collected or handed out in later steps. As soon as one of them lies elsewhere, because it
    was loaded, or moved (`x.data = ...`), or was not in the list before, all get views of a new vector.
    """

    def __init__(self) -> None:
        self._vectors: dict[str, tuple[Tensor, array[int]]] = {}

    def read(self, states: list[State], name: str) -> Tensor:
        """The scalar of each state, shape (N,)."""
        vector = self._known(states, name)
        if vector is None:
            vector = torch.stack([state[name] for state in states]) if states else torch.empty(0)
            # A compiler and autograd see tensors, not what they are views of; a graph has the memory that it was given.
            if states and not traced() and not capturing():
                for state, view in zip(states, vector.unbind(), strict=True):
                    state[name] = view
                self._vectors[name] = vector, addresses(states, name)
        return vector

    def write(self, states: list[State], scalars: dict[str, Tensor]) -> None:
        """Set what `read` returned under some names, which may be what was changed in place, each of shape (N,)."""
        copies: dict[tuple[torch.device, torch.dtype], list[tuple[Tensor, Tensor]]] = {}  # each kind is one launch
        for name, values in scalars.items():
            of_kind = copies.setdefault((values.device, values.dtype), [])
            if traced() or (capturing() and self._known(states, name) is None):
                of_kind += zip([state[name] for state in states], values.unbind(), strict=True)
            elif values is not self._vectors[name][0]:
                of_kind.append((self._vectors[name][0], values))
        for pairs in filter(None, copies.values()):
            copy_(*map(list, zip(*pairs, strict=True)))

    def _known(self, states: list[State], name: str) -> Tensor | None:
        """The vector that the scalars are views of."""
        if traced() or name not in self._vectors:
            return None
        vector, places = self._vectors[name]
        return vector if addresses(states, name) == places else None
