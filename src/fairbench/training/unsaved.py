"""What an optimizer keeps on itself and a checkpoint leaves out, as digests that show every change of it."""

import hashlib
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor

from fairbench.optimizers.state import is_plain, own_attributes
from fairbench.training.checkpoint import content_digest


def unsaved(optimizer: torch.optim.Optimizer, saved: Iterable[Tensor], watch: object = None) -> dict[str, str]:
    """The attributes that are neither plain nor in the optimizer's `state_dict`, each with a digest of its content.

    Args:
        saved: tensors that the rest of the checkpoint has: the model's.
        watch: what the optimizer's method `mechanism` returned; the checkpoint has its state.
    """
    state_dict = optimizer.state_dict()
    content = _Content([*saved, *_tensors(state_dict)], [optimizer, watch])
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

    def __init__(self, saved: Iterable[Tensor], known: Iterable[object]) -> None:
        self._saved = {_storage(x) for x in saved}
        self._known = {id(x): "" for x in known}
        self._alive: list[Any] = []  # what is known by its address

    def __call__(self, value: Any) -> str:
        if isinstance(value, Tensor):
            return "" if _storage(value) in self._saved else content_digest(value)
        if isinstance(value, bool | int | float | complex | str | bytes):
            return repr(value)
        if value is None or isinstance(value, FunctionType | BuiltinFunctionType | ModuleType | type):
            return ""
        if id(value) not in self._known:
            self._known[id(value)] = ""  # for a cycle
            self._alive.append(value)
            self._known[id(value)] = _sha(*self._parts(value))
        return self._known[id(value)]

    def _parts(self, value: Any) -> list[str]:
        if isinstance(value, Mapping):
            return [self(key) + of_key for key, each in list(value.items()) if (of_key := self(each))]
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
    """The address of a tensor's memory, which its views share."""
    return tensor.untyped_storage().data_ptr()


def _tensors(value: Any) -> list[Tensor]:
    """The tensors in a `state_dict`."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for each in value for tensor in _tensors(each)]
    return [value] if isinstance(value, Tensor) else []
