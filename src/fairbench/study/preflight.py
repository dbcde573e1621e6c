"""What the preflight of a study measured: what its trials need, and how long they take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairbench.study.plan import Study
from fairbench.study.trial_spec import TrialSpec


@dataclass(frozen=True)
class Preflight:
    """A study that can begin, with the measurements of its first steps; no result depends on them.

    Attributes:
        study: the study, with everything resolved on this machine.
        step_seconds: of each arena, the duration of the slowest optimizer's step.
        evaluation_seconds: of each arena, the duration of an evaluation of the larger split, scaled from one batch.
        mechanisms: of each optimizer and arena, the mechanism's measurements over a few steps; None if it has none.
        gpu_bytes: of each arena, the largest GPU memory that torch allocated in the first steps; 0 without a GPU.
        gpu_free_bytes: GPU memory that a process can have; 0 without a GPU.
        restart_reasons: of each optimizer and arena, why its trials cannot resume from a checkpoint; empty if they can.
    """

    study: Study
    step_seconds: Mapping[str, float]
    evaluation_seconds: Mapping[str, float]
    mechanisms: Mapping[str, Mapping[str, Any]]
    gpu_bytes: Mapping[str, int]
    gpu_free_bytes: int
    restart_reasons: Mapping[str, Mapping[str, str]]

    def resumes(self, spec: TrialSpec) -> bool:
        """Whether an interrupted trial resumes from its checkpoint and gives the same result."""
        return not self.restart_reasons[spec.optimizer.name][spec.arena.name]

    def restart_notice(self) -> str:
        """Which trials restart when they are interrupted, and why; empty if none does."""
        arenas_of: dict[tuple[str, str], list[str]] = {}
        for optimizer, reasons in self.restart_reasons.items():
            for arena, reason in reasons.items():
                if reason:
                    arenas_of.setdefault((optimizer, reason), []).append(arena)
        lines = [f"  {optimizer} ({', '.join(arenas)}): {reason}" for (optimizer, reason), arenas in arenas_of.items()]
        return "\n".join(["these trials restart when they are interrupted:", *lines]) if lines else ""


def trial_seconds(preflight: Preflight, arena: str) -> Mapping[str, float]:
    """The expected duration of a trial of each stage; a final trial is also evaluated on the test split."""
    suite, step = preflight.study.suite, preflight.step_seconds[arena]
    plan, evaluation = suite.arenas[arena], preflight.evaluation_seconds[arena]
    return {
        "sweep": plan.sweep_steps * step + suite.sweep.evaluations * evaluation,
        "final": plan.steps * step + (suite.final.evaluations + 1) * evaluation,
    }
