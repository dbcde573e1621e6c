"""Loads a state dict by torch's own method, which casts a state to its parameter's dtype and copies whole groups.

Torch is given only what it must cast and copy. The rest is set afterwards: the detector's scalars, which have dtypes
of their own, and numbers and words, which need no copies.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from psilogic.checkpoint import DETECTOR, StateDict, migrate
from psilogic.hyperparameters import check_group
from psilogic.tensors.scalars import detector_dtype

READ_BY_TORCH = ("params", "fused", "capturable")
"""What torch reads of a group: whose states these are, and where their step counts belong."""
IMMUTABLE = (float, int, bool, str, NoneType)
"""Types of values that need no copies."""


def load(optimizer: Optimizer, state_dict: StateDict, load_by_torch: Callable[[StateDict], None]) -> None:
    """Load the state of a PsiLogic, of Adam or AdamW, or of the published package, by torch's own method.

    Raises:
        ValueError: the state dict cannot be read, or does not fit the optimizer; nothing is changed then.
    """
    migrated: StateDict = {}

    def prepare(_: Optimizer, loaded: StateDict) -> StateDict:
        """Check the state dict before torch loads it, and return what torch must load."""
        migrated.update(migrate(loaded, optimizer.param_groups))
        groups = [{**optimizer.defaults, **group} for group in migrated["param_groups"]]
        for group in groups:
            check_group(group, groups[:1])  # also that it agrees with the first group
        migrated["param_groups"] = groups
        return for_torch(migrated)

    def complete(_: Optimizer) -> None:
        """Set what torch did not load."""
        params = [p for group in optimizer.param_groups for p in group["params"]]
        saved_ids = [key for group in migrated["param_groups"] for key in group["params"]]
        restore_options(optimizer.param_groups, migrated["param_groups"])
        restore_scalars(params, saved_ids, migrated["state"], optimizer.state)

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
        state[key] = {name: value for name, value in entry.items() if name not in DETECTOR}
    groups = []
    for group in state_dict["param_groups"]:
        copied = {name: value for name, value in group.items() if type(value) not in IMMUTABLE}
        for name in READ_BY_TORCH:
            copied[name] = group[name]
        groups.append(copied)
    return {**state_dict, "state": state, "param_groups": groups}


def restore_options(groups: Sequence[StateDict], saved_groups: Sequence[StateDict]) -> None:
    """Set what `for_torch` has left out of the groups."""
    for group, saved in zip(groups, saved_groups, strict=True):
        group.update({name: value for name, value in saved.items() if type(value) in IMMUTABLE})


def restore_scalars(
    params: Sequence[Tensor],
    saved_ids: Iterable[Any],
    saved: Mapping[Any, StateDict],
    state: Mapping[Tensor, StateDict],
) -> None:
    """Restore the detector's scalars, which torch was not given, in their own dtypes.

    `saved_ids` are the parameters' keys in `saved`, the `state` of a state dict; `state` is changed in place.
    """
    for param, key in zip(params, saved_ids, strict=True):
        entry = saved.get(key)
        if not entry:
            continue  # the parameter has taken no step
        mine = state[param]
        for name in DETECTOR:
            value = entry.get(name)
            if value is None:
                continue
            if name == "chaos_start":  # a clock, which lies where the step count lies
                dtype = value.dtype
                device = mine["step"].device
            else:
                dtype = detector_dtype(param)
                device = param.device
            if value.dtype != dtype or value.device != device:
                value = value.detach().to(device=device, dtype=dtype)
            mine[name] = value
