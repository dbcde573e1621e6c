"""From plain values to declared types: dataclasses, as in `fairbench.suites.schema`, typed dicts, lists and numbers."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from fairbench.common.errors import unknown

KeyPath = tuple[str, ...]
"""The path of a key, as in ("arenas", "gpt", "steps")."""
Builder = Callable[[Any, KeyPath], Any]
"""Converts a value at a path; raises `Wrong` if it cannot."""


class Wrong(ValueError):
    """An error in the value of the key at `path`."""

    def __init__(self, path: KeyPath, reason: object) -> None:
        super().__init__(f"{'.'.join(path) or 'it'} {reason}")
        self.path, self.reason = path, reason


def build(cls: Any, value: Any, path: KeyPath) -> Any:
    """A value converted to a declared type; raises `Wrong` where it does not fit."""
    return _builder(cls)(value, path)


@cache
def _builder(cls: Any) -> Builder:
    """The function that builds values of a type: it is called for each of the many records of a study."""
    kind, parts = get_origin(cls), get_args(cls)
    if is_typeddict(cls):
        hints = get_type_hints(cls)
        return partial(_typed_dict, {key: _builder(x) for key, x in hints.items()}, cls.__required_keys__)
    if is_dataclass(cls):
        needed = [x.name for x in fields(cls) if x.default is MISSING and x.default_factory is MISSING]
        return partial(_dataclass, cls, {key: _builder(x) for key, x in get_type_hints(cls).items()}, needed)
    if kind in (dict, Mapping):
        return partial(_dict, parts[1], _builder(parts[1]))
    if kind in (list, Sequence):
        return partial(_list, parts[0], _builder(parts[0]))
    if kind is tuple:
        return partial(_tuple, [*map(_builder, parts)])
    if NoneType in parts:
        other = _builder(parts[0])
        return lambda value, path: None if value is None else other(value, path)
    return partial(_simple, cls, parts)


def _simple(cls: Any, choices: Sequence[Any], value: Any, path: KeyPath) -> Any:
    """Any value, one of the choices, or a number, text or bool."""
    if cls is Any or type(value) is cls:
        return value
    if cls is float and type(value) is int:
        return float(value)
    if choices and value in choices:
        return value
    wanted = f"one of {', '.join(map(repr, choices))}" if choices else _NAMES[cls]
    raise Wrong(path, f"must be {wanted}, got {value!r}")


def _dataclass(cls: Any, builders: Mapping[str, Builder], needed: Iterable[str], value: Any, path: KeyPath) -> Any:
    """A dataclass, of a table without other keys."""
    for key in _table(value, path):
        if key not in builders:
            raise Wrong((*path, key), unknown("key", key, builders))
    return cls(**_typed_dict(builders, needed, value, path))


def _typed_dict(builders: Mapping[str, Builder], needed: Iterable[str], value: Any, path: KeyPath) -> dict[str, Any]:
    """A table, which may have more keys than the declared ones."""
    built = dict(_table(value, path))
    for key in needed:
        if key not in built:
            raise Wrong((*path, key), "is missing")
    for key, builder in builders.items():
        if key in built:
            built[key] = builder(built[key], (*path, key))
    return built


def _dict(part: Any, builder: Builder, value: Any, path: KeyPath) -> Mapping[str, Any]:
    table = _table(value, path)
    if _are(part, table.values()):
        return table
    return {key: builder(item, (*path, key)) for key, item in table.items()}


def _list(part: Any, builder: Builder, value: Any, path: KeyPath) -> list[Any]:
    if not isinstance(value, list):
        raise Wrong(path, f"must be a list, got {value!r}")
    return value if _are(part, value) else [builder(item, path) for item in value]


def _tuple(builders: Sequence[Builder], value: Any, path: KeyPath) -> list[Any]:
    if not isinstance(value, list) or len(value) != len(builders):
        raise Wrong(path, f"must be a list of {len(builders)} values, got {value!r}")
    return [builder(item, path) for builder, item in zip(builders, value, strict=True)]


def _table(value: Any, path: KeyPath) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Wrong(path, f"must be a table, got {value!r}")
    return value


def _are(part: Any, values: Collection[Any]) -> bool:
    """Whether values need no conversion: most lists of a record have many numbers, or pairs of them."""
    if part in _NAMES:
        return set(map(type, values)) <= {part}
    if get_origin(part) is not tuple:
        return part is Any
    columns = get_args(part)
    is_even = set(map(type, values)) <= {list} and set(map(len, values)) <= {len(columns)}
    return is_even and all(map(_are, columns, zip(*values, strict=True)))


_NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
