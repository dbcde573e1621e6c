"""Values of hyperparameters: which of them JSON can hold, and which fit a default."""

import json
from typing import Any

from fairbench.common.errors import UsageError

KINDS = ((bool, "true or false"), ((int, float), "a number"), (str, "a string"), ((list, tuple), "a list"))
"""The kinds of values, bool before number, since a bool of Python is a number too."""


def is_json(value: Any) -> bool:
    """Whether JSON can hold the value, which excludes NaN and infinities."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def check_value(where: str, value: Any, default: Any) -> None:
    """Raise UsageError unless a hyperparameter's value fits into a record, and is of the kind of its default.

    Args:
        where: its name in the message, as "optimizers.AdamW.options.betas".
        value: its value.
        default: the factory's default; None allows every kind.
    """
    if not is_json(value):
        raise UsageError(f"{where} must be a finite plain value, got {value!r}")
    kind = _kind(default)
    if default is not None and _kind(value) != kind:
        raise UsageError(f"{where} must be {kind}, as its default {default!r} is; got {value!r}")


def _kind(value: Any) -> str:
    """The kind of a value; whole numbers are numbers, since a default 0 often stands for 0.0."""
    return next((name for types, name in KINDS if isinstance(value, types)), "a table")
