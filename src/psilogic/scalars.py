"""The scalars in the states of many tensors, as vectors over the tensors."""

from collections.abc import Hashable
from operator import is_
from typing import Any

import torch
from torch import Tensor

from psilogic.norms import copy_

State = dict[str, Any]


class Scalars:
    """Reads and writes one scalar of many states at once.

    Each state has its own 0-dim tensor, as torch's optimizers have. Those of one list of states are made views of one
    vector, so that nothing is collected or handed out in later steps. A state whose scalar is another tensor, because
    it was loaded or was not in the list before, gets a view of a new vector.
    """

    def __init__(self) -> None:
        self._vectors: dict[Hashable, tuple[Tensor, list[Tensor]]] = {}

    def read(self, key: Hashable, states: list[State], name: str) -> Tensor:
        """The scalar of each state, shape (N,); `key` says which list of states it is."""
        scalars = [state[name] for state in states]
        if _traced():
            return torch.stack(scalars)
        vector, views = self._vectors.get((key, name), (None, []))
        if vector is None or not _views_of(vector, views, scalars):
            vector = torch.stack(scalars)
            views = list(vector.unbind())
            for state, view in zip(states, views, strict=True):
                state[name] = view
            self._vectors[key, name] = vector, views
        return vector

    def write(self, key: Hashable, states: list[State], name: str, values: Tensor) -> None:
        """Set the scalar of each state to its value, shape (N,), also what `read` returned, changed in place."""
        vector, views = self._vectors.get((key, name), (None, []))
        scalars = [state[name] for state in states]
        if _traced() or vector is None or not _views_of(vector, views, scalars):
            copy_(scalars, list(values.unbind()))
        elif values is not vector:
            vector.copy_(values)


def _views_of(vector: Tensor, views: list[Tensor], scalars: list[Tensor]) -> bool:
    """Whether the scalars are still the views, and these still lie in the vector: `x.data = ...` moves one away."""
    if len(views) != len(scalars) or not all(map(is_, views, scalars)):
        return False
    last = vector.data_ptr() + (len(views) - 1) * vector.itemsize
    return views[0].data_ptr() == vector.data_ptr() and views[-1].data_ptr() == last


def _traced() -> bool:
    """Whether a compiler, autograd or a CUDA graph follows the step: they see tensors, not what they are views of."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return True
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
