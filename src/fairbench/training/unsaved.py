"""The values on an optimizer that a checkpoint leaves out, as digests that show every change of a value."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from fairbench.optimizers.state import is_plain, own_attributes
from fairbench.training.digests import content_digest

NO_CONTENT = (type(None), FunctionType, BuiltinFunctionType, ModuleType, type, RemovableHandle)


def unsaved(optimizer: torch.optim.Optimizer, saved: Iterable[object]) -> dict[str, str]:
    """A digest of each attribute of the optimizer that is neither plain nor in its `state_dict`.

    Attributes without content are left out, such as functions, classes, and objects that cannot be pickled.

    Args:
        optimizer: the optimizer.
        saved: further objects that a checkpoint has.
    """
    state_dict = optimizer.state_dict()
    contents = Contents([optimizer, *saved, *_nested([optimizer.state, optimizer.param_groups, state_dict])])
    digests = {}
    for name, value in own_attributes(optimizer).items():
        if not is_plain(value) and name not in state_dict:
            digest = contents.digest(value)
            if digest:
                digests[name] = digest
    return digests


class Contents:
    """Digests of the contents of objects. Each object is read once."""

    def __init__(self, known: Iterable[object]) -> None:
        """Make digests in which known objects, and all tensors that share memory with them, are empty."""
        self._alive = list(known)  # a kept object keeps its address, by which it is recognized
        self._digests = {id(value): "" for value in self._alive}
        self._memory = {0}
        for value in self._alive:
            if isinstance(value, Tensor):
                self._memory.add(_address(value))

    def digest(self, value: Any) -> str:
        """The digest of a value; empty for a known object, and for an object without content, as a function."""
        if isinstance(value, Tensor):
            return "" if _address(value) in self._memory else content_digest(value)
        if isinstance(value, bool | int | float | complex | str | bytes):
            return repr(value)
        if id(value) not in self._digests:
            self._alive.append(value)
            self._digests[id(value)] = ""  # for an object that contains itself
            parts = [part for part in self._parts(value) if part]
            if parts:
                text = ";".join(parts)
                self._digests[id(value)] = hashlib.sha256(text.encode()).hexdigest()
        return self._digests[id(value)]

    def _parts(self, value: Any) -> list[str]:
        """The digests of the parts of an object."""
        if isinstance(value, NO_CONTENT):
            return []
        if isinstance(value, Mapping):
            return self._parts_of_mapping(value)
        if isinstance(value, set | frozenset):
            return sorted(self.digest(each) for each in value)
        if isinstance(value, list | tuple):
            return [self.digest(each) for each in value]
        try:
            reduced = value.__reduce_ex__(2)
        except Exception:  # any class may refuse
            return []
        parts = []
        for each in reduced[1:]:
            is_iterator = hasattr(each, "__next__")
            parts.append(list(each) if is_iterator else each)
        return [self.digest(part) for part in parts]

    def _parts_of_mapping(self, value: Mapping[Any, Any]) -> list[str]:
        """The keys of a mapping with the digests of their values."""
        parts = []
        for key, each in list(value.items()):
            digest = self.digest(each)
            if digest:
                name = key if isinstance(key, str) else ""  # other keys may be addresses
                parts.append(name + digest)
        return parts


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The reason why a checkpoint is incomplete; empty if two results of `unsaved` are equal."""
    names = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    if not names:
        return ""
    return f"it keeps {', '.join(names)} on itself and not in its state"


def _address(tensor: Tensor) -> int:
    """The address of a tensor's memory, which its views share; 0 without any."""
    if tensor.layout != torch.strided:
        return 0
    return tensor.untyped_storage().data_ptr()


def _nested(value: Any) -> Iterator[Any]:
    """A value, and all values inside of it, at any depth of mappings, lists and tuples."""
    yield value
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    for each in inner:
        yield from _nested(each)
