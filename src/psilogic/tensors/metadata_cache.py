"""What was found out about tensors, for as long as they look the same."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import Tensor

from psilogic.tensors.norms import Foreach

T = TypeVar("T")


def _load() -> Any:
    """The class of guards that torch.compile asks whether a graph fits; None where it is not the one that is known."""
    try:
        kind: Any = import_module("torch._C._dynamo.guards").TensorGuards
        x = torch.empty(2, 3, device="cpu")
        guard = kind(x, dynamic_dims_sizes=[[2, 3]], dynamic_dims_strides=[[3, 1]])
        others = [x.double(), x.reshape(3, 2), x.new_empty(3, 2).t(), torch._neg_view(x)]
        return kind if guard.check(x) and not any(map(guard.check, others)) else None
    except Exception:  # not part of torch's interface: it may change in any way
        return None


TensorGuards = _load()


class MetadataCache:
    """Remembers what was found out about a list of tensors.

    To ask hundreds of tensors one after the other for dtype, layout, shape and strides takes as long as the update of
    small ones. A guard compares all of that in a single call.
    """

    def __init__(self) -> None:
        self._key: Any = None
        self._found: Any = None
        self._guard: Any = None

    def get(self, key: Any, tensors: Foreach, find: Callable[[], T | None]) -> T | None:
        """What `find` returns, which is called only if there is something new.

        Args:
            key: what else it depends on; it says how many tensors there are.
            tensors: what it depends on by class, device, dtype, layout, shape and strides, but not by address.
            find: returns None for what is not to be remembered.
        """
        known = key == self._key
        if known and self._guard is not None and self._guard.check(*tensors):
            return self._found  # type: ignore[no-any-return]
        found = find()
        self._key, self._found = key, found
        # A guard costs as much as ten comparisons: it is made for what comes a second time.
        self._guard = _guard(tensors) if known and found is not None else None
        return found


def _guard(tensors: list[Tensor]) -> Any:
    if TensorGuards is None:
        return None
    sizes, strides = [list(x.shape) for x in tensors], [list(x.stride()) for x in tensors]
    return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
