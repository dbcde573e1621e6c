"""The canonical JSON of values, and its sha256."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """The JSON text of a value, which is the same for equal values: sorted keys, no white space, no NaN."""
    return _CANONICAL.encode(value)


def digest(value: Any) -> str:
    """The sha256 of the canonical JSON text of a value, hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def without_defaults(value: Any) -> Any:
    """Turn dataclasses into plain values, without the fields that have their default.

    A new field with a default then changes no digest.
    """
    if isinstance(value, Mapping):
        return {key: without_defaults(each) for key, each in value.items()}
    if not is_dataclass(value):
        return value
    parts = {}
    for field in fields(value):
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        part = without_defaults(getattr(value, field.name))
        if default is MISSING or canonical_json(part) != canonical_json(without_defaults(default)):
            parts[field.name] = part
    return parts


@dataclass(frozen=True)
class SpecPart:
    """A part of a trial's spec, which many trials of a study share."""

    def to_json(self) -> dict[str, Any]:
        """The fields, without those that have their default: a new field leaves old records valid."""
        values = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is MISSING or value != field.default:
                values[field.name] = value
        return values

    @cached_property
    def text(self) -> str:
        """The canonical JSON text of these fields."""
        return canonical_json(self.to_json())
