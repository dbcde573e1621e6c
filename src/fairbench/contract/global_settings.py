"""A check that an optimizer leaves its process unchanged: settings, functions of other modules, and the process."""

import gc
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from fairbench.common.checks import Severity, check
from fairbench.contract.case import Case

SETTINGS = (
    torch.get_default_dtype,
    torch.get_default_device,
    torch.get_num_threads,
    torch.get_num_interop_threads,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.is_anomaly_enabled,
    torch.get_float32_matmul_precision,
    np.geterr,
    gc.isenabled,
    threading.active_count,
    sys.gettrace,
    os.getcwd,
)
"""Functions that return a setting of the whole process."""
PATCHABLE = ("builtins", "math", "numpy", "numpy.random", "random", "time", "torch", "torch.autograd", "torch.linalg")
"""The modules whose functions must stay as they are, in addition to the modules of torch.nn and fairbench."""
_forks: list[int] = []
"""An element for each fork of this process."""


def count_forks() -> None:
    """Count the forks of this process from now on. Each fork ends at once, since it would go through the check, too."""
    os.register_at_fork(before=lambda: _forks.append(1), after_in_child=lambda: os._exit(0))


def settings() -> dict[str, Any]:
    """The settings and functions of this process that an optimizer must not change."""
    values: dict[str, Any] = {}
    for get in SETTINGS:
        values[f"{get.__module__}.{get.__name__}()"] = get()
    values["autocast on the CPU"] = torch.is_autocast_enabled("cpu")
    values["the number of torch's global hooks"] = _global_hooks()
    values["the number of torch's modes"] = torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack()
    values["the number of forks of its process"] = len(_forks)
    return values | _functions()


def _global_hooks() -> int:
    """The number of torch's hooks on all modules and all optimizers."""
    count = 0
    for module in (torch.nn.modules.module, sys.modules["torch.optim.optimizer"]):
        for name, hooks in vars(module).items():
            if name.startswith("_global") and isinstance(hooks, dict):
                count += len(hooks)
    return count


def _functions() -> dict[str, Any]:
    """The functions of modules, and the methods of their classes, by name."""
    owners: dict[str, Mapping[str, Any]] = {}
    for base in (torch.Tensor, torch.optim.Optimizer):
        owners[f"{base.__module__}.{base.__name__}"] = vars(base)
    for name, module in list(sys.modules.items()):
        if name in PATCHABLE or name.startswith(("torch.nn", "fairbench.")):
            owners[name] = vars(module)
            owners |= _classes(name, vars(module))
    functions = {}
    for owner, members in owners.items():
        for name, member in list(members.items()):
            if callable(member):
                functions[f"{owner}.{name}"] = member
    return functions


def _classes(module: str, members: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The members of each class that a module defines. Optimizers are left out, since torch replaces their step."""
    classes = {}
    for name, member in list(members.items()):
        is_own = isinstance(member, type) and member.__module__ == module
        if is_own and not issubclass(member, torch.optim.Optimizer):
            classes[f"{module}.{name}"] = vars(member)
    return classes


@check("global settings", "fail", "leave it alone, or restore it in the same step: the model is trained with it")
def global_settings(case: Case) -> tuple[Severity, str]:
    """Neither the optimizer's module nor its steps change a setting or a function that others use."""
    with suppress(Exception):  # a change may be the reason
        case.training(case.steps)
    after = settings()
    changes = []
    for name, old in case.settings.items():
        new = after.get(name)
        if callable(old) and new is not old:
            changes.append(f"it replaces {name}")
        elif not callable(old) and new != old:
            changes.append(f"it changes {name} from {old} to {new}")
    if changes:
        return "fail", "; ".join(changes[:3])
    return "pass", "they stay as they are"
