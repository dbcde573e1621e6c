"""What an optimizer keeps on itself and a checkpoint leaves out, as digests that show every change of it."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from fairbench.optimizers.state import is_plain, own_attributes
from fairbench.training.checkpoint import content_digest

NO_CONTENT = (type(None), FunctionType, BuiltinFunctionType, ModuleType, type, RemovableHandle)


def unsaved(optimizer: torch.optim.Optimizer, saved: Iterable[Tensor], watch: object = None) -> dict[str, str]:
    """The attributes that are neither plain nor in the optimizer's `state_dict`, each with a digest of its content.

    Args:
        saved: tensors that the rest of the checkpoint has: the model's.
        watch: what the optimizer's method `mechanism` returned; the checkpoint has its state.
    """
    state_dict = optimizer.state_dict()
    content = _Content([optimizer, watch, *saved, *_nested([optimizer.state, optimizer.param_groups, state_dict])])
    attributes = own_attributes(optimizer).items()
    kept = {name: content(x) for name, x in attributes if not is_plain(x) and name not in state_dict}
    return {name: digest for name, digest in kept.items() if digest}


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Why a checkpoint is incomplete, from two results of `unsaved` that should be equal; empty if they are."""
    names = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    return f"it keeps {', '.join(names)} on itself and not in its state" if names else ""


class _Content:
    """The digest of a value's content, whatever its address; empty without content that a checkpoint leaves out.

    Functions, classes and objects that cannot be pickled count as empty.
    """

    def __init__(self, saved: Iterable[object]) -> None:
        self._alive = list(saved)  # what is known by its address
        self._known = {id(x): "" for x in self._alive}
        self._saved = {0, *(_storage(x) for x in self._alive if isinstance(x, Tensor))}

    def __call__(self, value: Any) -> str:
        if isinstance(value, Tensor):
            return "" if _storage(value) in self._saved else content_digest(value)
        if isinstance(value, bool | int | float | complex | str | bytes):
            return repr(value)
        if isinstance(value, NO_CONTENT):
            return ""
        if id(value) not in self._known:
            self._known[id(value)] = ""  # for a cycle
            self._alive.append(value)
            self._known[id(value)] = _sha(*self._parts(value))
        return self._known[id(value)]

    def _parts(self, value: Any) -> list[str]:
        if isinstance(value, Mapping):
            parts = [(key, self(each)) for key, each in list(value.items())]
            return [f"{key if isinstance(key, str) else ''}{part}" for key, part in parts if part]  # a key may be id(p)
        if isinstance(value, set | frozenset):
            return sorted(map(self, value))
        if isinstance(value, list | tuple):
            return [self(each) for each in value]
        try:
            reduced = value.__reduce_ex__(2)
        except Exception:  # any class may refuse
            return []
        _, *content = (None, reduced) if isinstance(reduced, str) else reduced
        return [self(list(part) if hasattr(part, "__next__") else part) for part in content]


def _sha(*parts: str) -> str:
    text = ";".join(filter(None, parts))
    return text and hashlib.sha256(text.encode()).hexdigest()


def _storage(tensor: Tensor) -> int:
    """The address of a tensor's memory, which its views share; 0 without any."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


def _nested(value: Any) -> Iterator[Any]:
    """The tensors and containers in a value."""
    yield value
    for each in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _nested(each)
