"""The scalars in the states of many tensors, as vectors over the tensors."""

from __future__ import annotations

from array import array
from typing import Any

import torch
from torch import Tensor

from psilogic.tensors.memory import addresses
from psilogic.tensors.norms import copy_
from psilogic.tensors.uploads import capturing

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
        if _traced() or not states:
            return torch.stack([state[name] for state in states]) if states else torch.empty(0)
        vector, places = self._vectors.get(name, (None, None))
        if vector is None or addresses(states, name) != places:
            vector = torch.stack([state[name] for state in states])
            for state, view in zip(states, vector.unbind(), strict=True):
                state[name] = view
            self._vectors[name] = vector, addresses(states, name)
        return vector

    def write(self, states: list[State], name: str, values: Tensor) -> None:
        """Set what `read` returned, which may be what was changed in place, to its values, shape (N,)."""
        if _traced():
            copy_([state[name] for state in states], list(values.unbind()))
        elif values is not self._vectors[name][0]:
            self._vectors[name][0].copy_(values)


def _traced() -> bool:
    """Whether a compiler, autograd or a CUDA graph follows the step: they see tensors, not what they are views of."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return True
    return capturing()
