"""The whole state of an optimizer, from which a training resumes bit for bit.

In addition to the `state_dict`, it has the plain values that many optimizers keep as attributes. torch's
`load_state_dict` casts floating-point state to the dtype and the device of its parameter. Here the state stays as it
was saved.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

PLAIN = (bool, int, float, str, type(None))
TABLES = (dict, Counter, OrderedDict)
"""The dictionaries that `torch.load(weights_only=True)` reads."""


@cache
def _base_attributes() -> frozenset[str]:
    """The names of the attributes that every optimizer of torch has."""
    optimizer = torch.optim.Optimizer([torch.zeros(1)], {})
    return frozenset(vars(optimizer))


def is_plain(value: Any) -> bool:
    """Whether a value consists of numbers, strings and flags, in dicts, lists and tuples, without types of numpy."""
    if type(value) in TABLES:
        return all(is_plain(key) and is_plain(each) for key, each in value.items())
    if type(value) in (list, tuple):
        return all(is_plain(each) for each in value)
    return type(value) in PLAIN


def own_attributes(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The attributes of an optimizer that torch's base class does not have."""
    return {name: value for name, value in vars(optimizer).items() if name not in _base_attributes()}


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The `state_dict` of an optimizer and its own plain attributes, for `load_optimizer_state`."""
    attributes = {name: value for name, value in own_attributes(optimizer).items() if is_plain(value)}
    return {"state_dict": optimizer.state_dict(), "attributes": attributes}


def load_optimizer_state(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    """Load a result of `optimizer_state` into an optimizer of the same class and parameters that has taken no step."""
    state_dict = saved["state_dict"]
    optimizer.load_state_dict(state_dict)
    state = state_dict["state"]
    for saved_group, group in zip(state_dict["param_groups"], optimizer.param_groups, strict=True):
        for key, p in zip(saved_group["params"], group["params"], strict=True):
            if key in state and p in optimizer.state:
                optimizer.state[p] = _as_saved(optimizer.state[p], state[key])
    for name, value in saved["attributes"].items():
        setattr(optimizer, name, value)


def _as_saved(loaded: Any, saved: Any) -> Any:
    """The loaded state, with each tensor as it was saved where its dtype or device was changed."""
    if isinstance(loaded, Tensor) and isinstance(saved, Tensor):
        if loaded.dtype == saved.dtype and loaded.device == saved.device:
            return loaded
        return saved.clone()
    if isinstance(loaded, dict) and isinstance(saved, dict) and loaded.keys() == saved.keys():
        for key in loaded:
            loaded[key] = _as_saved(loaded[key], saved[key])
    elif type(loaded) in (list, tuple) and type(saved) is type(loaded) and len(loaded) == len(saved):
        return type(loaded)(map(_as_saved, loaded, saved))
    return loaded
