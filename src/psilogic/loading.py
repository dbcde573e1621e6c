"""Loads a state dict by torch's own method, which runs the caller's hooks and copies what can change in a group.

Torch is not given numbers and words, which need no copies, nor the tensors of PsiLogic's state, some of which have
dtypes of their own: they are set afterwards.
"""

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from psilogic.checkpoint import DETECTOR, MOMENTS, StateDict, migrate
from psilogic.hyperparameters import check_group
from psilogic.tensors.scalars import detector_dtype

TENSORS = ("step", *MOMENTS, *DETECTOR)
"""The tensors of a parameter's state."""
IMMUTABLE = frozenset({float, int, bool, str, NoneType})
"""Types of values that need no copies."""


def load(optimizer: Optimizer, state_dict: StateDict, load_by_torch: Callable[[StateDict], None]) -> None:
    """Load the state of a PsiLogic, of Adam or AdamW, or of the published package, by torch's own method.

    Raises:
        ValueError: the state dict cannot be read, or does not fit the optimizer; nothing is changed then.
    """
    options: list[StateDict] = []  # of each group, without those that torch is given
    tensors: dict[Tensor, StateDict] = {}  # of each parameter's state

    def prepare(_: Optimizer, loaded: StateDict) -> StateDict:
        """Check the state dict before torch loads it, and return what torch must load."""
        migrated = migrate(loaded, optimizer.param_groups)
        for group in migrated["param_groups"]:
            options.append({**optimizer.defaults, **group})
            check_group(options[-1], options[:1])  # also that it agrees with the first group
        tensors.update(take_states(migrated["state"], options, optimizer.param_groups))
        migrated["param_groups"] = list(map(take_mutable, options))
        return migrated

    def complete(_: Optimizer) -> None:
        """Set what torch did not load."""
        for group, values in zip(optimizer.param_groups, options, strict=True):
            group.update(values)
        for param, values in tensors.items():
            optimizer.state[param].update(values)

    # `prepare` runs after the caller's pre-hooks, which may return another dict, and `complete` before the post-hooks
    hooks = [
        optimizer.register_load_state_dict_pre_hook(prepare),
        optimizer.register_load_state_dict_post_hook(complete, prepend=True),
    ]
    try:
        load_by_torch(state_dict)
    finally:
        for hook in hooks:
            hook.remove()


def take_states(
    states: dict[Any, StateDict], saved_groups: Sequence[StateDict], groups: Sequence[StateDict]
) -> dict[Tensor, StateDict]:
    """Take the tensors out of the saved states of all parameters, as the parameters need them.

    A state that contains nothing else is taken as a whole.
    """
    taken: dict[Tensor, StateDict] = {}
    for saved, group in zip(saved_groups, groups, strict=False):  # torch refuses other numbers later
        counts_on_device = saved["fused"] or saved["capturable"]
        for key, param in zip(saved["params"], group["params"], strict=False):
            if key not in states:
                continue  # the parameter has taken no step
            taken[param] = take_tensors(states[key], param, counts_on_device)
            if not states[key]:
                del states[key]
    return taken


def take_tensors(state: StateDict, param: Tensor, counts_on_device: bool) -> StateDict:
    """Take the tensors out of a parameter's saved state, cast and moved as torch does it.

    The detector's memory keeps a precision of its own, and its clock lies where the step count lies.
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


def take_mutable(group: StateDict) -> StateDict:
    """Take out of a group what needs a copy."""
    mutable = {name: value for name, value in group.items() if type(value) not in IMMUTABLE}
    for name in mutable:
        del group[name]
    return mutable
