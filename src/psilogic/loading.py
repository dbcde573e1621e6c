"""Loads a state dict by torch's own method, which casts a state to its parameter's dtype and copies whole groups.

Torch is given only what it must cast and copy. The rest is set afterwards: the detector's scalars, which have dtypes
of their own, and numbers and words, which need no copies.
"""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from psilogic.checkpoint import DETECTOR, StateDict, migrate
from psilogic.hyperparameters import check_group
from psilogic.tensors.scalars import detector_dtype

READ_BY_TORCH = ("params", "fused", "capturable")
"""What torch reads of a group: whose states these are, and where their step counts belong."""
IMMUTABLE = frozenset({float, int, bool, str, NoneType})
"""Types of values that need no copies."""


def load(optimizer: Optimizer, state_dict: StateDict, load_by_torch: Callable[[StateDict], None]) -> None:
    """Load the state of a PsiLogic, of Adam or AdamW, or of the published package, by torch's own method.

    Raises:
        ValueError: the state dict cannot be read, or does not fit the optimizer; nothing is changed then.
    """
    migrated: StateDict = {}
    given: StateDict = {}  # what torch loads of it

    def prepare(_: Optimizer, loaded: StateDict) -> StateDict:
        """Check the state dict before torch loads it, and return what torch must load."""
        migrated.update(migrate(loaded, optimizer.param_groups))
        groups = [{**optimizer.defaults, **group} for group in migrated["param_groups"]]
        for group in groups:
            check_group(group, groups[:1])  # also that it agrees with the first group
        migrated["param_groups"] = groups
        given.update(for_torch(migrated))
        return given

    def complete(_: Optimizer) -> None:
        """Set what torch did not load."""
        for group, saved, copied in zip(
            optimizer.param_groups, migrated["param_groups"], given["param_groups"], strict=True
        ):
            restore_options(group, saved, copied)
            for param, key in zip(group["params"], saved["params"], strict=True):
                if migrated["state"].get(key):  # the parameter has taken a step
                    restore_scalars(param, migrated["state"][key], optimizer.state[param])

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


def for_torch(state_dict: StateDict) -> StateDict:
    """What torch must cast and copy of a state dict."""
    state: dict[Any, StateDict] = {}
    for key, entry in state_dict["state"].items():
        cast = dict(entry)
        for name in DETECTOR:
            cast.pop(name, None)
        state[key] = cast
    groups = []
    for group in state_dict["param_groups"]:
        copied = {name: value for name, value in group.items() if type(value) not in IMMUTABLE}
        for name in READ_BY_TORCH:
            copied[name] = group[name]
        groups.append(copied)
    return {**state_dict, "state": state, "param_groups": groups}


def restore_options(group: StateDict, saved: StateDict, given: StateDict) -> None:
    """Set the options of a saved group that were not given to torch."""
    copied = {name: group[name] for name in given}
    group.update({**saved, **copied})


def restore_scalars(param: Tensor, saved: Mapping[str, Any], state: StateDict) -> None:
    """Restore the detector's scalars of a parameter, which torch was not given, in their own dtypes."""
    memory_dtype = detector_dtype(param)
    memory_device = param.device
    for name in DETECTOR:
        value = saved.get(name)
        if value is None:
            continue
        if name == "chaos_start":  # a clock, which lies where the step count lies
            dtype = value.dtype
            device = state["step"].device
        else:
            dtype = memory_dtype
            device = memory_device
        if value.dtype != dtype or value.device != device:
            value = value.detach().to(device=device, dtype=dtype)
        state[name] = value
