"""What the first steps of an optimizer in an arena have shown before any trial, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class FirstSteps:
    """The cost of the first steps of an optimizer, and what was noticed in them.

    Attributes:
        seconds: those of a training step.
        start_seconds: those from the start of a program to its first step.
        steps: the steps of the first run of a program whose reports were right; 0 if none was measured.
        unmeasured: whether the time of a trial is not known.
        lacks_test: whether the verdict is about the test split, and the program has reported none.
        told_by_name: whether a program makes the optimizer itself, by its name.
        notices: messages for the user.
        identity: what a program gets. With an equal identity, two optimizers are the same to it. None if it is not
            known.
        gpu_bytes: the memory that a trial takes on a GPU.
        gpu_free_bytes: the memory of the GPU that was free; 0 if no memory is measured.
        restart_reason: why a trial cannot resume from a checkpoint; empty if it can.
        rewritten: a file that each run of a program writes again in its folder; empty without one.
    """

    seconds: float
    start_seconds: float = 0.0
    steps: int = 0
    unmeasured: bool = False
    lacks_test: bool = False
    told_by_name: bool = False
    notices: Sequence[str] = ()
    identity: Any = None
    gpu_bytes: int = 0
    gpu_free_bytes: int = 0
    restart_reason: str = ""
    rewritten: str = ""


def as_first(cost: FirstSteps, first: FirstSteps) -> FirstSteps:
    """The cost of a program whose first run gave one time, split into start and steps as that of the suite's first one.

    Only the first optimizer or variant of a suite has runs of several lengths, which tell its start from its steps.
    Both are scaled by the ratio of the one time to what the first one would have taken for as many steps.
    """
    expected = first.start_seconds + cost.steps * first.seconds
    if cost.unmeasured or first.unmeasured or not expected:
        return cost
    ratio = cost.start_seconds / expected
    return replace(cost, start_seconds=ratio * first.start_seconds, seconds=ratio * first.seconds)


Costs = Mapping[str, Mapping[str, FirstSteps]]
"""The costs of the first steps of all optimizers in all arenas, by optimizer and arena."""
