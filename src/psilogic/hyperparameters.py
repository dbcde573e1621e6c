"""Validation of hyperparameters, before any state is changed."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from numbers import Integral, Real
from operator import itemgetter
from typing import Any

from torch import Tensor

from psilogic.published_calls import refuse_gone

NON_NEGATIVE = ("lr", "eps", "weight_decay", "gamma", "p_ext", "tau_scale", "chaos_tau", "quantum_decay", "agc_clip")
WHOLE = {"chaos_warmup": -1, "total_steps": 0, "gamma_T_max": 0}
CHOICES = {
    "agc_norm": ("unit", "tensor"),
    "chaos_signal": ("raw", "relative"),
    "chaos_scope": ("tensor", "group", "global"),
    "bf16_update": ("nearest", "stochastic", "kahan"),
}
SWITCHES = ("adaptive_tau", "grad_centralize", "maximize", "capturable", "differentiable")
SAME_IN_ALL_GROUPS = ("max_grad_norm", "differentiable")
WORDS_OF_TORCH = {
    "lr": "Invalid learning rate: ",
    "eps": "Invalid epsilon value: ",
    "weight_decay": "Invalid weight_decay value: ",
    "betas[0]": "Invalid beta parameter at index 0: ",
    "betas[1]": "Invalid beta parameter at index 1: ",
}
"""How the messages of AdamW begin, which scripts and tests look for."""


def number(name: str, value: Any) -> float:
    """The value as a float; ValueError if it is not a single real number. Only lr and weight_decay may be tensors."""
    if isinstance(value, Tensor) and name in ("lr", "weight_decay"):
        if value.numel() != 1 or value.is_complex():
            shape = tuple(value.shape)
            raise ValueError(f"Tensor {name} must be 1-element: it must have one real element, got the shape {shape}")
        return 0.0 if value.is_meta else float(value.detach())
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_range(name: str, value: Any, low: float, high: float = math.inf, *, open_end: bool = True) -> None:
    """ValueError unless low <= value < high (<= high when the end is not open)."""
    plain = number(name, value)
    below_end = plain < high if open_end else plain <= high
    if low <= plain and below_end:
        return
    end = ")" if open_end else "]"
    message = f"{name} must lie in [{low:g}, {high:g}{end}, got {value!r}"
    if name in WORDS_OF_TORCH:
        message = f"{WORDS_OF_TORCH[name]}{value}; {message}"
    raise ValueError(message)


def check_hyperparameters(options: Mapping[str, Any]) -> None:
    """Check every hyperparameter of a complete group, or the constructor's; ValueError names it and its value."""
    betas = options["betas"]
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise ValueError(f"betas must be two numbers, got {betas!r}")
    for i, beta in enumerate(betas):
        check_range(f"betas[{i}]", beta, 0.0, 1.0)
    for name in NON_NEGATIVE:
        check_range(name, options[name], 0.0)
    if options["max_grad_norm"] is not None:
        check_range("max_grad_norm", options["max_grad_norm"], 0.0)
    check_range("max_cancel", options["max_cancel"], 0.0, 1.0, open_end=False)
    for name, least in WHOLE.items():
        value = options[name]
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    for name, choices in CHOICES.items():
        if options[name] not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, got {options[name]!r}")
    for name in SWITCHES:
        if not isinstance(options[name], bool):
            raise ValueError(f"{name} must be True or False, got {options[name]!r}")
    if options.get("amsgrad", False) is not False:
        raise ValueError(
            f"amsgrad must be False, got {options['amsgrad']!r}: PsiLogic is defined with Adam's second moment, "
            "not with its running maximum"
        )
    if options["differentiable"] and options["bf16_update"] != "nearest":
        raise ValueError(f"bf16_update must be nearest with differentiable=True, got {options['bf16_update']!r}")
    for name in ("foreach", "fused"):
        if options[name] is not None and not isinstance(options[name], bool):
            raise ValueError(f"{name} must be None, True or False, got {options[name]!r}")
    if options["fused"] and options["foreach"]:
        raise ValueError("`fused` and `foreach` cannot be `True` together: pass one of them")
    if options["fused"] and options["differentiable"]:
        raise ValueError("`fused` does not support `differentiable`: pass one of them")


_chosen = itemgetter(*CHOICES)
_VALID_CHOICES = frozenset(product(*CHOICES.values()))
"""Every combination of valid words: looking one up is cheaper in each step than one look-up for each word."""


def check_changes(groups: Sequence[Mapping[str, Any]]) -> None:
    """Check what a misspelled word or a group of its own would change silently; asked in every step.

    Raises:
        ValueError: naming the argument and its value.
    """
    first = groups[0]
    for group in groups:
        if _chosen(group) not in _VALID_CHOICES:
            check_hyperparameters(group)
        if group is first:
            continue
        for name in SAME_IN_ALL_GROUPS:
            if group[name] != first[name]:
                raise ValueError(f"{name} must be the same in all groups, got {group[name]!r} and {first[name]!r}")


def check_group(group: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> None:
    """Check one parameter group, completed by the defaults, and that it agrees with the existing ones.

    Raises:
        ValueError: naming the argument and its value; also if it must be the same in all groups but is not.
        TypeError: the group has an argument that only the published package has.
    """
    refuse_gone(group)
    check_hyperparameters(group)
    check_changes([*others[:1], group])
