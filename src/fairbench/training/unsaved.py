"""What an optimizer keeps on itself and a checkpoint leaves out, as digests that show every change of it."""

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
    """The attributes that are neither plain nor in the optimizer's `state_dict`, each with a digest of its content.

    Functions, classes, and objects that cannot be pickled have none. A checkpoint also has the objects in `saved`.
    """
    state_dict = optimizer.state_dict()
    alive = [optimizer, *saved, *_nested([optimizer.state, optimizer.param_groups, state_dict])]
    known = {id(x): "" for x in alive}
    memory = {0, *(_address(x) for x in alive if isinstance(x, Tensor))}

    def content(value: Any) -> str:
        if isinstance(value, Tensor):
            return "" if _address(value) in memory else content_digest(value)
        if isinstance(value, bool | int | float | complex | str | bytes):
            return repr(value)
        if id(value) not in known:
            known[id(value)] = ""  # for a cycle
            alive.append(value)  # its address stays its own
            text = ";".join(filter(None, parts(value)))
            known[id(value)] = text and hashlib.sha256(text.encode()).hexdigest()
        return known[id(value)]

    def parts(value: Any) -> Iterable[str]:
        if isinstance(value, NO_CONTENT):
            return ()
        if isinstance(value, Mapping):
            pairs = [(key if isinstance(key, str) else "", content(each)) for key, each in list(value.items())]
            return [key + digest for key, digest in pairs if digest]  # other keys may be addresses
        if isinstance(value, set | frozenset):
            return sorted(map(content, value))
        if not isinstance(value, list | tuple):
            try:
                reduced = value.__reduce_ex__(2)
            except Exception:  # any class may refuse
                return ()
            value = [list(x) if hasattr(x, "__next__") else x for x in reduced[1:]]
        return map(content, value)

    left_out = {k: x for k, x in own_attributes(optimizer).items() if not is_plain(x) and k not in state_dict}
    return {name: digest for name, value in left_out.items() if (digest := content(value))}


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Why a checkpoint is incomplete, from two results of `unsaved` that should be equal; empty if they are."""
    names = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    return f"it keeps {', '.join(names)} on itself and not in its state" if names else ""


def _address(tensor: Tensor) -> int:
    """The address of a tensor's memory, which its views share; 0 without any."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


def _nested(value: Any) -> Iterator[Any]:
    yield value
    for each in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _nested(each)
