"""Loads a state dict by torch's own method, which runs the caller's hooks and copies what can change in a group.

The tensors of PsiLogic's state, some of which have dtypes of their own, pass torch's method as they are.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from types import NoneType
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from psilogic.checkpoint import DETECTOR, MOMENTS, StateDict, migrate
from psilogic.hyperparameters import check_group
from psilogic.tensors.scalars import detector_dtype
from psilogic.warmup import warn_of_a_short_rest

TENSORS = ("step", *MOMENTS, *DETECTOR)
"""The tensors of a parameter's state."""
TAKEN = "tensors of PsiLogic"
"""The key of these tensors, by their parameters, in a state that torch loads: it is no parameter's."""
IMMUTABLE = frozenset({float, int, bool, str, NoneType})
"""Types of values that need no copies."""


class LoadedGroup(dict[str, Any]):
    """The options of a saved group. A copy for the optimizer is a dict, and shares what cannot change."""

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        copied = dict(self)
        for name, value in self.items():
            kind = type(value)
            if kind in IMMUTABLE:
                continue
            if kind is tuple and IMMUTABLE.issuperset(map(type, value)):
                continue
            copied[name] = deepcopy(value, memo)
        return copied


def load(optimizer: Optimizer, state_dict: StateDict, load_by_torch: Callable[[StateDict], None]) -> None:
    """Load the state of a PsiLogic, of Adam or AdamW, or of the published package, by torch's own method.

    Raises:
        ValueError: the state dict cannot be read, or does not fit the optimizer; nothing is changed then.
    """
    hook = optimizer.register_load_state_dict_pre_hook(prepare)  # the last one: the caller's may return another dict
    try:
        load_by_torch(state_dict)
    finally:
        hook.remove()
    warn_of_a_short_rest(optimizer.param_groups, optimizer.state)


def prepare(optimizer: Optimizer, loaded: StateDict) -> StateDict:
    """Check a state dict before torch loads it, and return what torch must load.

    Raises:
        ValueError: it cannot be read, or does not fit the optimizer.
    """
    migrated = migrate(loaded, optimizer.param_groups)
    options: list[StateDict] = []
    for group in migrated["param_groups"]:
        complete = LoadedGroup(optimizer.defaults)
        complete.update(group)
        options.append(complete)
        check_group(complete, options[:1])  # also that it agrees with the first group
    states = migrated["state"]
    states[TAKEN] = take_states(states, options, optimizer.param_groups)
    migrated["param_groups"] = options
    return migrated


def complete(optimizer: Optimizer) -> None:
    """Complete an optimizer that torch has restored: by the tensors that `prepare` has taken, or else by the defaults.

    The groups of `prepare` have all options; those of an older pickle may lack some.
    """
    taken = optimizer.state.pop(TAKEN, None)  # type: ignore[call-overload]
    if taken is None:
        for group in optimizer.param_groups:
            group.update({**optimizer.defaults, **group})
        return
    for param, tensors in taken.items():
        optimizer.state[param].update(tensors)


def take_states(
    states: dict[Any, StateDict], saved_groups: Sequence[StateDict], groups: Sequence[StateDict]
) -> dict[Tensor, StateDict]:
    """Take the tensors out of the saved states of all parameters, as the parameters need them.

    A state that contains nothing else is taken as a whole.

    Raises:
        ValueError: a moment has another shape than its parameter.
    """
    taken: dict[Tensor, StateDict] = {}
    for i, (saved, group) in enumerate(zip(saved_groups, groups, strict=False)):  # torch refuses other numbers later
        counts_on_device = saved["fused"] or saved["capturable"]
        for j, (key, param) in enumerate(zip(saved["params"], group["params"], strict=False)):
            state = states.get(key)
            if state is None:
                continue  # the parameter has taken no step
            try:
                taken[param] = take_tensors(state, param, counts_on_device)
            except ValueError as error:
                raise ValueError(f"the state dict does not fit parameter {j} in group {i}: {error}") from None
            if not state:
                del states[key]
    return taken


def take_tensors(state: StateDict, param: Tensor, counts_on_device: bool) -> StateDict:
    """Take the tensors out of a parameter's saved state, cast and moved as torch does it.

    The detector's memory keeps a precision of its own, and its clock lies where the step count lies.

    Raises:
        ValueError: a moment has another shape than the parameter.
    """
    param_device = param.device
    is_real = param.is_floating_point()
    memory_dtype = detector_dtype(param)
    tensors: StateDict = {}
    for name in TENSORS:
        value = state.pop(name, None)
        if value is None:
            continue
        saved_dtype = value.dtype
        dtype = saved_dtype
        device = param_device
        if name in MOMENTS:
            if name != "compensation" and value.shape != param.shape:
                raise ValueError(
                    f"{name} has the shape {tuple(value.shape)}, the parameter has {tuple(param.shape)}; "
                    "was it saved with other parameters?"
                )
            if is_real:
                dtype = param.dtype
        elif name == "step":
            if counts_on_device:
                dtype = torch.float32
            else:
                device = value.device
        elif name == "chaos_start":
            device = tensors["step"].device
        else:
            dtype = memory_dtype
        if saved_dtype != dtype or value.device != device:
            value = value.to(device=device, dtype=dtype)
        tensors[name] = value
    return tensors
