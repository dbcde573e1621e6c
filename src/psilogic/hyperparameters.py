"""Validation of hyperparameters, before any state is changed."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from operator import itemgetter
from typing import Any

from psilogic.options import OPTIONS, Choice, has_plain, values_of, with_pythons_numbers
from psilogic.published_calls import refuse_gone

CHOICES = {name: option.values.words for name, option in OPTIONS.items() if isinstance(option.values, Choice)}
SAME_IN_ALL_GROUPS = [name for name, option in OPTIONS.items() if option.same_in_all_groups]


def check_hyperparameters(options: dict[str, Any]) -> dict[str, Any]:
    """Check every hyperparameter of a complete group, or the constructor's; ValueError names it and its value.

    Returns:
        The options with NumPy's numbers as Python's: the same object, where there are none.
    """
    values = values_of(options)
    is_plain = has_plain(values)
    if is_plain:
        _check_plain(*values)
    else:  # a tensor may have changed since it was last checked
        _check_each(options)
    if options.get("amsgrad", False) is not False:
        raise ValueError(
            f"amsgrad must be False, got {options['amsgrad']!r}: PsiLogic is defined with Adam's second moment, "
            "not with its running maximum"
        )
    return options if is_plain else with_pythons_numbers(options)


@lru_cache(maxsize=1024, typed=True)
def _check_plain(*values: Any) -> None:
    """Check the values of all options, once for each combination of them: groups have the same ones."""
    _check_each(dict(zip(OPTIONS, values, strict=True)))


def _check_each(options: Mapping[str, Any]) -> None:
    """Check each option, and options that exclude each other."""
    for name, option in OPTIONS.items():
        option.values.check(name, options[name])
    if 0 < options["chaos_warmup"] < 1 and not (options["total_steps"] or options["gamma_T_max"]):
        raise ValueError(
            f"chaos_warmup={options['chaos_warmup']!r} is a share of the training, whose length is not known: "
            "give total_steps, or a number of steps"
        )
    if options["differentiable"] and options["bf16_update"] != "nearest":
        raise ValueError(f"bf16_update must be nearest with differentiable=True, got {options['bf16_update']!r}")
    if options["fused"] and options["foreach"]:
        raise ValueError("`fused` and `foreach` cannot be `True` together: pass one of them")
    if options["fused"] and options["differentiable"]:
        raise ValueError("`fused` does not support `differentiable`: pass one of them")


_chosen = itemgetter(*CHOICES)
_VALID_CHOICES = frozenset(product(*CHOICES.values()))
"""Every combination of valid words: looking one up is cheaper in each step than one look-up for each word."""


def check_changes(groups: Sequence[dict[str, Any]]) -> None:
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


def check_group(group: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Check one parameter group, completed by the defaults, and that it agrees with the existing ones.

    Returns:
        The group with NumPy's numbers as Python's: the same object, where there are none.

    Raises:
        ValueError: naming the argument and its value; also if it must be the same in all groups but is not.
        TypeError: the group has an argument that only the published package has.
    """
    refuse_gone(group)
    plain = check_hyperparameters(group)
    check_changes([*others[:1], group])
    return plain
