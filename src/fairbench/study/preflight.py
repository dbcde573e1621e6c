"""What the preflight of a study found: what its trials need and how long they take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.study.plan import Study
from fairbench.study.trial_spec import TrialSpec


@dataclass(frozen=True)
class Rehearsal:
    """A study that can begin.

    Attributes:
        study: the study.
        step_seconds: of each arena, how long the slowest optimizer's step took; nothing that numbers depend on.
        evaluation_seconds: of each arena, how long an evaluation of the larger split takes, of one batch scaled to it.
        mechanisms: of each optimizer and arena what its mechanism tells of a few steps, None if it has none.
        gpu_bytes: of each arena, the most that torch took of a GPU for the first steps; 0 without one.
        gpu_room: bytes of the GPU that a process can have; 0 without one.
        gpus: the GPUs that torch finds, each by a name that is its own in every process of this machine.
        anew: of each optimizer and arena, why its trials cannot go on from a checkpoint; empty where they can.
    """

    study: Study
    step_seconds: Mapping[str, float]
    evaluation_seconds: Mapping[str, float]
    mechanisms: Mapping[str, Mapping[str, Any]]
    gpu_bytes: Mapping[str, int]
    gpu_room: int
    gpus: Sequence[str]
    anew: Mapping[str, Mapping[str, str]]

    def resumes(self, spec: TrialSpec) -> bool:
        """Whether a trial goes on from a checkpoint as if it had never stopped."""
        return not self.anew[spec.optimizer.name][spec.arena.name]

    def beginning_anew(self) -> str:
        """Which trials begin anew when they are interrupted, and why, in words; empty if none does."""
        causes: dict[tuple[str, str], list[str]] = {}
        for optimizer, arenas in self.anew.items():
            for arena, why in arenas.items():
                if why:
                    causes.setdefault((optimizer, why), []).append(arena)
        lines = [f"  {optimizer} ({', '.join(arenas)}): {why}" for (optimizer, why), arenas in causes.items()]
        return "\n".join(["these trials begin anew when they are interrupted:", *lines]) if lines else ""


def trial_seconds(rehearsal: Rehearsal, arena: str) -> Mapping[str, float]:
    """How long a trial of each stage takes; a final one is evaluated on the test split, too.

    Args:
        rehearsal: how long steps and evaluations take.
        arena: name of the arena.
    """
    suite, step = rehearsal.study.suite, rehearsal.step_seconds[arena]
    plan, evaluation = suite.arenas[arena], rehearsal.evaluation_seconds[arena]
    return {
        "sweep": plan.sweep_steps * step + suite.sweep.evaluations * evaluation,
        "final": plan.steps * step + (suite.final.evaluations + 1) * evaluation,
    }
