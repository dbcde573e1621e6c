"""Values of hyperparameters: which of them a record can hold, and which fit the place that they are given for."""

import json
from typing import Any

from fairbench.common.errors import UsageError

KINDS = ((bool, "true or false"), ((int, float), "a number"), (str, "a string"), ((list, tuple), "a list"))
"""What there is of values, the narrowest first: in Python a bool is a number too."""


def is_plain(value: Any) -> bool:
    """Whether JSON can hold the value."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def check_value(where: str, value: Any, default: Any) -> None:
    """See that a hyperparameter has a value that fits its default.

    Args:
        where: what errors call it, as "optimizers.AdamW.options.betas".
        value: its value.
        default: the factory's own; None says nothing of what fits.

    Raises:
        UsageError: the value cannot stand in a record, or is of another kind than the default.
    """
    if not is_plain(value):
        raise UsageError(f"{where} must be a finite plain value, got {value!r}")
    kind = _kind(default)
    if default is not None and _kind(value) != kind:
        raise UsageError(f"{where} must be {kind}, as its default {default!r} is; got {value!r}")


def _kind(value: Any) -> str:
    """What sort of value it is; a whole number is a number, since many a default is written 0 that may be 0.5."""
    return next((name for types, name in KINDS if isinstance(value, types)), "a table")
