"""What every step looks up to compare it with the step before: by one compiled call each, where that was built."""

from array import array
from collections.abc import Mapping
from itertools import chain
from operator import is_, itemgetter
from typing import Any, NamedTuple

from torch import Tensor

from psilogic.tensors import memory
from psilogic.tensors.norms import TensorList

ADDRESS_BYTES = 8
"""The size of an address."""


class Participants(NamedTuple):
    """The parameters that have a gradient."""

    params: TensorList
    grads: TensorList
    counts: list[int]  # the number of them in each group of the optimizer
    ids: bytes  # the id of each parameter, as 64-bit integers

    def take(self, chosen: list[int]) -> "Participants":
        """The parameters at the chosen positions; `counts` and `ids` stay those of all."""
        params = [self.params[i] for i in chosen]
        grads = [self.grads[i] for i in chosen]
        return Participants(params, grads, self.counts, self.ids)


def have_same(mappings: list[dict[str, Any]], names: tuple[str, ...], objects: list[Any]) -> bool:
    """Whether mappings have, under each of several names, the very objects of a list, mapping after mapping."""
    if memory.COMPILED is not None:
        same: bool = memory.COMPILED.have_same(mappings, names, objects)
        return same
    present = list(chain.from_iterable(map(itemgetter(*names), mappings)))
    return len(present) == len(objects) and all(map(is_, present, objects))


def participants(groups: list[dict[str, Any]]) -> Participants:
    """The parameters of all groups that have a gradient, in the order of the groups."""
    if memory.COMPILED is not None:
        return Participants(*memory.COMPILED.with_gradient(groups))
    params: TensorList = []
    grads: TensorList = []
    counts: list[int] = []
    for group in groups:
        before = len(params)
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                params.append(p)
                grads.append(grad)
        counts.append(len(params) - before)
    return Participants(params, grads, counts, array("q", map(id, params)).tobytes())


def columns(
    params: TensorList, grads: TensorList, every_state: Mapping[Tensor, Any], names: tuple[str, ...]
) -> tuple[list[dict[str, Any]], TensorList]:
    """The states of N parameters; and all of their tensors: parameters, gradients, then name after name of the states.

    Raises:
        KeyError: a state lacks a name.
    """
    if memory.COMPILED is not None:
        found: tuple[list[dict[str, Any]], TensorList] = memory.COMPILED.columns(params, grads, every_state, names)
        return found
    states = [every_state[p] for p in params]
    return states, [*params, *grads, *(state[name] for name in names for state in states)]


def moved(tensors: TensorList, before: bytearray, first: int, last: int) -> bytes | None:
    """What has moved of tensors, of which only those from `first` to before `last` may.

    Args:
        tensors: the tensors.
        before: their addresses, as 64-bit integers; takes those of the tensors that may move.
        first: the position of the first that may move.
        last: the position after the last.

    Returns:
        None if each is where it was before; the addresses of those that may move if only they are elsewhere; otherwise
        no bytes.
    """
    if memory.COMPILED is not None:
        found: bytes | None = memory.COMPILED.moved(memory.ADDRESS_OF, tensors, before, first, last)
        return found
    present = memory.addresses(tensors).tobytes()
    if present == before:
        return None
    begin = first * ADDRESS_BYTES
    end = last * ADDRESS_BYTES
    if present[:begin] != before[:begin] or present[end:] != before[end:]:
        return b""
    before[begin:end] = present[begin:end]
    return present[begin:end]
