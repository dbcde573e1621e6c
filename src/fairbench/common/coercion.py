"""The conversion of plain values to declared types: dataclasses, as those of suites, typed dicts, lists and numbers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from fairbench.common.errors import UsageError, unknown

KeyPath = tuple[str, ...]
"""The path of a key in nested tables, such as ("arenas", "gpt", "steps")."""
NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


class Wrong(ValueError):
    """An error in the value of the key at `path`."""

    def __init__(self, path: KeyPath, reason: object) -> None:
        super().__init__(f"{'.'.join(path) or 'it'} {reason}")
        self.path = path
        self.reason = reason


def build(cls: Any, value: Any, path: KeyPath) -> Any:
    """Convert a value to a declared type.

    Args:
        cls: the declared type.
        value: a plain value.
        path: the path of its key, for errors.

    Raises:
        Wrong: the value, or a part of it, does not fit.
    """
    if cls is Any or type(value) is cls:
        return value
    if is_typeddict(cls) or is_dataclass(cls):
        types, needed = _keys(cls)
        keys = build_keys(types, needed, value, path, others=is_typeddict(cls))
        return cls(**keys)
    kind = get_origin(cls)
    parts = get_args(cls)
    if kind in (dict, Mapping):
        table = _table(value, path)
        return {key: build(parts[1], item, (*path, key)) for key, item in table.items()}
    if kind in (list, Sequence):
        if not isinstance(value, list):
            raise Wrong(path, f"must be a list, got {value!r}")
        return [build(parts[0], item, path) for item in value]
    if NoneType in parts:  # an optional value
        if value is None:
            return None
        return build(parts[0], value, path)
    if value in parts:  # a literal
        return value
    if cls is float and type(value) is int:
        return float(value)
    if not parts:
        raise Wrong(path, f"must be {NAMES[cls]}, got {value!r}")
    choices = ", ".join(repr(part) for part in parts)
    raise Wrong(path, f"must be one of {choices}, got {value!r}")


@cache
def _keys(cls: Any) -> tuple[Mapping[str, Any], list[str]]:
    """The type of each key of a typed dict or a dataclass, and the keys without a default."""
    if is_typeddict(cls):
        return get_type_hints(cls), sorted(cls.__required_keys__)
    needed = []
    for field in fields(cls):
        if field.default is MISSING and field.default_factory is MISSING:
            needed.append(field.name)
    return get_type_hints(cls), needed


def build_keys(
    types: Mapping[str, Any], needed: Iterable[str], value: Any, path: KeyPath, others: bool = False
) -> dict[str, Any]:
    """Convert the values of a table to declared types.

    Args:
        types: the declared type of each key.
        needed: the keys that the table must have.
        value: the table.
        path: the path of the table, for errors.
        others: whether the table may have other keys.

    Raises:
        Wrong: a key is missing or unknown, or its value does not fit.
    """
    built = dict(_table(value, path))
    if not others:
        for key in built:
            if key not in types:
                raise Wrong((*path, key), unknown("key", key, types))
    for key in needed:
        if key not in built:
            raise Wrong((*path, key), "is missing")
    for key, kind in types.items():
        if key in built:
            built[key] = build(kind, built[key], (*path, key))
    return built


def _table(value: Any, path: KeyPath) -> Mapping[str, Any]:
    """The value itself. Raises `Wrong` if it is not a table."""
    if not isinstance(value, Mapping):
        raise Wrong(path, f"must be a table, got {value!r}")
    return value


KINDS = ((bool, "true or false"), ((int, float), "a number"), (str, "a string"), ((list, tuple), "a list"))
"""The types of each kind of values. bool is first, since a bool of Python is a number, too."""


def is_json(value: Any) -> bool:
    """Whether JSON can hold a value. It cannot hold NaN and infinities."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def check_value(where: str, value: Any, default: Any) -> None:
    """Raise UsageError if the value of a hyperparameter does not fit into a record, or is not of its default's kind.

    Args:
        where: the key of the hyperparameter, for errors.
        value: the value.
        default: its default; None for a hyperparameter without a default.
    """
    if not is_json(value):
        raise UsageError(f"{where} must be a finite plain value, got {value!r}")
    kind = _kind(default)
    if default is not None and _kind(value) != kind:
        raise UsageError(f"{where} must be {kind}, as its default {default!r} is; got {value!r}")


def _kind(value: Any) -> str:
    """The kind of a value, in words. Whole numbers are numbers, since a default 0 often stands for 0.0."""
    for types, name in KINDS:
        if isinstance(value, types):
            return name
    return "a table"
