"""From plain values to declared types: dataclasses, as in `fairbench.suites.schema`, typed dicts, lists and numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

from fairbench.common.errors import unknown

KeyPath = tuple[str, ...]
"""The path of a key, as in ("arenas", "gpt", "steps")."""


class Wrong(ValueError):
    """An error in the value of the key at `path`."""

    def __init__(self, path: KeyPath, reason: object) -> None:
        super().__init__(f"{'.'.join(path)} {reason}")
        self.path, self.reason = path, reason


def build(cls: Any, value: Any, path: KeyPath) -> Any:
    """A value converted to a declared type; raises `Wrong` where it does not fit."""
    if cls is Any:
        return value
    kind, parts = get_origin(cls), get_args(cls)
    if is_dataclass(cls) or is_typeddict(cls):
        return _table(cls, _checked(value, Mapping, "a table", path), path)
    if kind in (dict, Mapping):
        values = _checked(value, Mapping, "a table", path)
        return (
            values
            if _is_of(parts[1], values.values())
            else {k: build(parts[1], x, (*path, k)) for k, x in values.items()}
        )
    if kind in (list, Sequence):
        values = _checked(value, list, "a list", path)
        return values if _is_of(parts[0], values) else [build(parts[0], x, path) for x in values]
    if kind is tuple:
        values = _checked(value, list, "a list", path)
        if len(values) != len(parts):
            raise Wrong(path, f"must have {len(parts)} values, got {value!r}")
        return [build(part, x, path) for part, x in zip(parts, values, strict=True)]
    if NoneType in parts:
        return None if value is None else build(parts[0], value, path)
    if kind is Literal:
        if value not in parts:
            raise Wrong(path, f"must be one of {', '.join(map(repr, parts))}, got {value!r}")
        return value
    if cls is float and type(value) is int:
        return float(value)
    return _checked(value, cls, _NAMES[cls], path)


def _checked(value: Any, kind: type, name: str, path: KeyPath) -> Any:
    """A value of a kind; a bool is no number."""
    if not isinstance(value, kind) or (kind in _NAMES and type(value) is not kind):
        raise Wrong(path, f"must be {name}, got {value!r}")
    return value


def _table(cls: Any, value: Mapping[str, Any], path: KeyPath) -> Any:
    """A dataclass, or a typed dict, which may have more keys than the declared ones."""
    hints, needed, is_dict = *_declared(cls), is_typeddict(cls)
    for key in value:
        if key not in hints and not is_dict:
            raise Wrong((*path, key), unknown("key", key, hints))
    for key in needed:
        if key not in value:
            raise Wrong((*path, key), "is missing")
    built = {key: build(hints[key], item, (*path, key)) if key in hints else item for key, item in value.items()}
    return built if is_dict else cls(**built)


@cache
def _declared(cls: Any) -> tuple[Mapping[str, Any], Iterable[str]]:
    """The types of the keys of a dataclass or a typed dict, and the keys that it needs."""
    if is_typeddict(cls):
        return get_type_hints(cls), cls.__required_keys__
    needed = [x.name for x in fields(cls) if x.default is MISSING and x.default_factory is MISSING]
    return get_type_hints(cls), needed


def _is_of(part: Any, values: Iterable[Any]) -> bool:
    """Whether values have a simple type exactly: most lists of a record have thousands of numbers."""
    if get_origin(part) is tuple:
        rows = [*values]
        widths, columns = set(map(len, rows)) if set(map(type, rows)) <= {list} else {-1}, get_args(part)
        return widths <= {len(columns)} and all(map(_is_of, columns, zip(*rows, strict=True)))
    return part is Any or (part in _NAMES and set(map(type, values)) <= {part})


_NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
