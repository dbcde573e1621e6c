"""From plain values to the dataclasses of `fairbench.suites.schema`."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fairbench.common.errors import unknown

KeyPath = tuple[str, ...]
"""The path of a key, as in ("arenas", "gpt", "steps")."""


class Wrong(Exception):
    """An error in the value of the key at `path`."""

    def __init__(self, path: KeyPath, reason: object) -> None:
        self.path, self.reason = path, reason


def build(cls: type, value: Any, path: KeyPath) -> Any:
    """A value converted to a declared type; raises `Wrong` where it does not fit."""
    if is_dataclass(cls):
        if not isinstance(value, Mapping):
            raise Wrong(path, f"must be a table, got {value!r}")
        hints, declared = get_type_hints(cls), {field.name: field for field in fields(cls)}
        for key in value:
            if key not in declared:
                raise Wrong((*path, key), unknown("key", key, declared))
        for key, field in declared.items():
            if key not in value and field.default is MISSING and field.default_factory is MISSING:
                raise Wrong((*path, key), "is missing")
        return cls(**{key: build(hints[key], item, (*path, key)) for key, item in value.items()})
    if get_origin(cls) is dict:
        if not isinstance(value, Mapping):
            raise Wrong(path, f"must be a table, got {value!r}")
        element = get_args(cls)[1]
        return {key: item if element is Any else build(element, item, (*path, key)) for key, item in value.items()}
    if get_origin(cls) is list:
        element = get_args(cls)[0]
        if not isinstance(value, list):
            raise Wrong(path, f"must be a list, got {value!r}")
        return value if element is Any else [build(element, item, path) for item in value]
    if NoneType in get_args(cls):
        return None if value is None else build(get_args(cls)[0], value, path)
    if get_origin(cls) is Literal:
        if value not in get_args(cls):
            raise Wrong(path, f"must be one of {', '.join(map(repr, get_args(cls)))}, got {value!r}")
        return value
    if cls is float and type(value) is int:
        return float(value)
    if type(value) is not cls:
        raise Wrong(path, f"must be {_NAMES[cls]}, got {value!r}")
    return value


_NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
