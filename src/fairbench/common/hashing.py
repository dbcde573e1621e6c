"""Canonical JSON and its sha256."""

import hashlib
import json
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no white space, no NaN."""
    return _CANONICAL.encode(value)


def digest(value: Any) -> str:
    """sha256 of the canonical JSON text, hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@dataclass(frozen=True)
class Part:
    """A part of a spec; many trials of a study share it."""

    def to_json(self) -> dict[str, Any]:
        """The fields, without those that have their default, so that a new field leaves old records valid."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if default is MISSING or value != default}

    @cached_property
    def text(self) -> str:
        """The part's canonical JSON text."""
        return canonical_json(self.to_json())
