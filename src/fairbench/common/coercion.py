"""From plain values to declared types: dataclasses, as in `fairbench.suites.schema`, typed dicts, lists and numbers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from fairbench.common.errors import UsageError, unknown

KeyPath = tuple[str, ...]
"""The path of a key, as in ("arenas", "gpt", "steps")."""
NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


class Wrong(ValueError):
    """An error in the value of the key at `path`."""

    def __init__(self, path: KeyPath, reason: object) -> None:
        super().__init__(f"{'.'.join(path) or 'it'} {reason}")
        self.path, self.reason = path, reason


def build(cls: Any, value: Any, path: KeyPath) -> Any:
    """A value converted to a declared type; raises `Wrong` where it does not fit."""
    if cls is Any or type(value) is cls:
        return value
    kind, parts = get_origin(cls), get_args(cls)
    if is_typeddict(cls) or is_dataclass(cls):
        return cls(**build_keys(*_keys(cls), value, path, others=is_typeddict(cls)))
    if kind in (dict, Mapping):
        return {key: build(parts[1], item, (*path, key)) for key, item in _table(value, path).items()}
    if kind in (list, Sequence):
        if not isinstance(value, list):
            raise Wrong(path, f"must be a list, got {value!r}")
        return [build(parts[0], item, path) for item in value]
    if NoneType in parts:
        return None if value is None else build(parts[0], value, path)
    if value in parts:
        return value
    if cls is float and type(value) is int:
        return float(value)
    wanted = f"one of {', '.join(map(repr, parts))}" if parts else NAMES[cls]
    raise Wrong(path, f"must be {wanted}, got {value!r}")


@cache
def _keys(cls: Any) -> tuple[Mapping[str, Any], list[str]]:
    """The types of the keys of a typed dict or a dataclass, and the keys that it needs."""
    if is_typeddict(cls):
        return get_type_hints(cls), sorted(cls.__required_keys__)
    needed = [x.name for x in fields(cls) if x.default is MISSING and x.default_factory is MISSING]
    return get_type_hints(cls), needed


def build_keys(
    types: Mapping[str, Any], needed: Iterable[str], value: Any, path: KeyPath, others: bool = False
) -> dict[str, Any]:
    """A table with values of the declared types, of which some are needed; it may have no others unless `others`."""
    built = dict(_table(value, path))
    for key in () if others else built:
        if key not in types:
            raise Wrong((*path, key), unknown("key", key, types))
    for key in needed:
        if key not in built:
            raise Wrong((*path, key), "is missing")
    return built | {key: build(part, built[key], (*path, key)) for key, part in types.items() if key in built}


def _table(value: Any, path: KeyPath) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Wrong(path, f"must be a table, got {value!r}")
    return value


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
    """Raise UsageError unless a hyperparameter's value fits into a record, and any default that it has."""
    if not is_json(value):
        raise UsageError(f"{where} must be a finite plain value, got {value!r}")
    kind = _kind(default)
    if default is not None and _kind(value) != kind:
        raise UsageError(f"{where} must be {kind}, as its default {default!r} is; got {value!r}")


def _kind(value: Any) -> str:
    """The kind of a value; whole numbers are numbers, since a default 0 often stands for 0.0."""
    return next((name for types, name in KINDS if isinstance(value, types)), "a table")
