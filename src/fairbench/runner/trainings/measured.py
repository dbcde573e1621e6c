"""What was measured of an arena before any trial, as plain values."""

from dataclasses import dataclass

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
