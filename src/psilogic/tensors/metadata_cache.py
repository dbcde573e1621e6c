"""Cache of a decision about a list of tensors, keyed by their metadata."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import Tensor

from psilogic.tensors.norms import Foreach

T = TypeVar("T")


def _load() -> Any:
    """The class of torch.compile's guards; None if it does not behave as expected."""
    try:
        kind: Any = import_module("torch._C._dynamo.guards").TensorGuards
        x = torch.empty(2, 3, device="cpu")
        guard = kind(x, dynamic_dims_sizes=[[2, 3]], dynamic_dims_strides=[[3, 1]])
        others = [x.double(), x.reshape(3, 2), x.new_empty(3, 2).t(), torch._neg_view(x)]
        return kind if guard.check(x) and not any(map(guard.check, others)) else None
    except Exception:  # a private part of torch, which may change
        return None


TensorGuards = _load()


class MetadataCache:
    """Caches the last result of a function of a list of tensors.

    Reading dtype, layout, shape and strides of hundreds of tensors one after the other takes as long as the update of
    small ones. A guard compares all of them in a single call.
    """

    def __init__(self) -> None:
        self._key: Any = None
        self._result: Any = None
        self._guard: Any = None

    def get(self, key: Any, tensors: Foreach, compute: Callable[[], T | None]) -> T | None:
        """The result of `compute`, which is called only if key or metadata changed.

        Args:
            key: everything else that the result depends on; it determines the number of tensors.
            tensors: the result depends on their class, device, dtype, layout, shape and strides, not their address.
            compute: returns None for a result that must not be cached.
        """
        same_key = key == self._key
        if same_key and self._guard is not None and self._guard.check(*tensors):
            return self._result  # type: ignore[no-any-return]
        result = compute()
        self._key, self._result = key, result
        # A guard costs as much as ten comparisons: it is made when a key occurs for the second time.
        self._guard = _guard(tensors) if same_key and result is not None else None
        return result


def _guard(tensors: list[Tensor]) -> Any:
    if TensorGuards is None:
        return None
    sizes, strides = [list(x.shape) for x in tensors], [list(x.stride()) for x in tensors]
    return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
