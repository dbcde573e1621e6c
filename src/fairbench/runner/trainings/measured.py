"""What was measured before any trial: an arena, and the first steps of an optimizer in it, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.study.resolved_suite import ResolvedArena


@dataclass(frozen=True, kw_only=True)
class MeasuredArena:
    """An arena, measured without an optimizer.

    Attributes:
        resolved: the identity of its data, code and models.
        evaluation_seconds: those of an evaluation of the largest split; 0 for a program, which evaluates in its steps.
        probed: the number of examples with which steps are measured.
    """

    resolved: ResolvedArena
    evaluation_seconds: float
    probed: int


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
