"""When a training is disturbed."""

from collections.abc import Mapping
from typing import Any


def shock_starts(spec: Mapping[str, Any], steps: int) -> list[int]:
    """How many steps of a training are done when each of its shocks begins, rising."""
    starts = {round(share * steps) for share in spec.get("at", [])}
    return sorted(start for start in starts if start < steps)


def disturbed_steps(spec: Mapping[str, Any], steps: int) -> frozenset[int]:
    """The steps, counted from 1, in which a training of so many steps is disturbed."""
    lasts = spec.get("steps", 1)
    return frozenset(start + i + 1 for start in shock_starts(spec, steps) for i in range(lasts) if start + i < steps)
