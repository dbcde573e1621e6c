"""Shocks: how a training is disturbed, the same for every optimizer and part of a trial's identity.

A suite gives an arena a shock, or all its arenas a twin for each shock:

    [arenas.vit]                      [shock.loss]
    shock = { kind = "loss", ... }    kind = "loss", ...        makes vit-loss in addition to vit, tuned on it

Every shock has `at`, the shares of the training at which it begins, and `steps`, how many steps it lasts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ShockFacts:
    """What is known of a kind of shock without loading it.

    Attributes:
        title: what it does, in a few words.
        kinds: the kinds of data that it can disturb.
        options: options of its own: a type where the option must be given, else the default.
    """

    title: str
    kinds: tuple[str, ...] = ("images", "text", "own")
    options: Mapping[str, Any] = field(default_factory=dict)


SHOCKS = {
    "loss": ShockFacts("the loss is multiplied", options={"factor": 100.0}),
    "heavy-tail": ShockFacts("each step's loss is multiplied by a Pareto number", options={"tail": 1.1}),
    "inputs": ShockFacts("the inputs are multiplied", kinds=("images",), options={"factor": 10.0}),
    "labels": ShockFacts("what belongs together in a batch is shuffled apart"),
    "gradient": ShockFacts("each tensor's gradient becomes noise of a multiple of its norm", options={"factor": 1.0}),
    "nan": ShockFacts("the loss is NaN"),
}


def shock_starts(spec: Mapping[str, Any], steps: int) -> list[int]:
    """How many steps of a training are done when each of its shocks begins, rising."""
    starts = {round(share * steps) for share in spec.get("at", [])}
    return sorted(start for start in starts if start < steps)


def disturbed_steps(spec: Mapping[str, Any], steps: int) -> frozenset[int]:
    """The steps, counted from 1, in which a training of a number of steps is disturbed."""
    lasts = spec.get("steps", 1)
    return frozenset(start + i + 1 for start in shock_starts(spec, steps) for i in range(lasts) if start + i < steps)
