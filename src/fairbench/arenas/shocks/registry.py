"""Shocks: disturbances of a training, the same for every optimizer, and part of a trial's identity.

A suite gives a shock to one arena, or adds to each of its arenas a disturbed copy:

    [arenas.vit]                      [shock.loss]
    shock = { kind = "loss", ... }    kind = "loss", ...        makes vit-loss in addition to vit, tuned on it

Every shock has `at`, the fractions of the training at which it begins, and `steps`, its duration in steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ShockFacts:
    """The facts of a kind of shock, which need no torch.

    Attributes:
        title: the effect, in a few words.
        kinds: the kinds of data that the shock can disturb.
        options: the options with their defaults.
    """

    title: str
    kinds: tuple[str, ...] = ("images", "text", "own")
    options: Mapping[str, Any] = field(default_factory=dict)


SHOCKS = {
    "loss": ShockFacts(
        title="the loss is multiplied",
        options={"factor": 100.0},
    ),
    "heavy-tail": ShockFacts(
        title="each step's loss is multiplied by a Pareto number",
        options={"tail": 1.1},
    ),
    "inputs": ShockFacts(
        title="the inputs are multiplied",
        kinds=("images",),
        options={"factor": 10.0},
    ),
    "labels": ShockFacts(title="the targets are shuffled over the batch"),
    "gradient": ShockFacts(
        title="each tensor's gradient becomes noise of a multiple of its norm",
        options={"factor": 1.0},
    ),
    "nan": ShockFacts(title="the loss is NaN"),
}
"""The kinds of shocks by their names."""


def shock_starts(spec: Mapping[str, Any], steps: int) -> list[int]:
    """The number of steps before the begin of each shock, in ascending order.

    Args:
        spec: the shock of a trial.
        steps: the number of steps of the training.
    """
    starts = {round(share * steps) for share in spec.get("at", [])}
    return sorted(start for start in starts if start < steps)


def disturbed_steps(spec: Mapping[str, Any], steps: int) -> frozenset[int]:
    """The numbers of the disturbed steps, counted from 1.

    Args:
        spec: the shock of a trial.
        steps: the number of steps of the training.
    """
    duration = spec.get("steps", 1)
    disturbed: set[int] = set()
    for start in shock_starts(spec, steps):
        end = min(start + duration, steps)
        disturbed.update(range(start + 1, end + 1))
    return frozenset(disturbed)
