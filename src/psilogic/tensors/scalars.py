"""The scalars in the states of many tensors, as vectors over the tensors."""

from array import array
from operator import is_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.tensors.norms import copy_

State = dict[str, Any]


class _Vector(NamedTuple):
    """One scalar of N states: a vector, the 0-dim views of it that the states have, and where these lie."""

    vector: Tensor
    views: list[Tensor]
    places: "array[int]"


class Scalars:
    """Reads and writes scalars of many states at once.

    Each state has its own 0-dim tensor, as torch's optimizers have. Those of one list of states are made views of one
    vector, so that nothing is collected or handed out in later steps. A state whose scalar is another tensor, because
    it was loaded or was not in the list before, or one that moved (`x.data = ...`), gets a view of a new vector.
    """

    def __init__(self) -> None:
        self._vectors: dict[str, _Vector] = {}

    def read(self, states: list[State], name: str) -> Tensor:
        """The scalar of each state, shape (N,)."""
        scalars = [state[name] for state in states]
        if _traced() or not scalars:
            return torch.stack(scalars) if scalars else torch.empty(0)
        known = self._vectors.get(name)
        if known is None or not _same(known, scalars):
            vector = torch.stack(scalars)
            views = list(vector.unbind())
            for state, view in zip(states, views, strict=True):
                state[name] = view
            known = self._vectors[name] = _Vector(vector, views, _places(views))
        return known.vector

    def write(self, states: list[State], name: str, values: Tensor) -> None:
        """Set what `read` returned, which may be what was changed in place, to its values, shape (N,)."""
        if _traced():
            copy_([state[name] for state in states], list(values.unbind()))
        elif values is not self._vectors[name].vector:
            self._vectors[name].vector.copy_(values)


def _same(known: _Vector, scalars: list[Tensor]) -> bool:
    """Whether the scalars are still the views, and these still lie where they did."""
    if len(known.views) != len(scalars) or not all(map(is_, known.views, scalars)):
        return False
    return _places(scalars) == known.places


def _places(scalars: list[Tensor]) -> "array[int]":
    return array("q", map(Tensor.data_ptr, scalars))


def _traced() -> bool:
    """Whether a compiler, autograd or a CUDA graph follows the step: they see tensors, not what they are views of."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return True
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
