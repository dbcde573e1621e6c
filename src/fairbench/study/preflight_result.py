"""The measurements of a study's preflight: the memory and the duration of its trials."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.grouping import grouped
from fairbench.study.first_steps import Costs, FirstSteps
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.trial_spec import TrialSpec

LEAST_LIMIT = 300.0
"""Seconds of a trial's limit for loading, which is not measured."""
LIMIT_RATIO = 50
"""The rest of a trial's limit, as a multiple of its expected duration."""
UNMEASURED_LIMIT = 7 * 86_400.0
"""The seconds of a trial's limit where the time of a trial is not known."""
CONTEXT_BYTES = 600_000_000
"""GPU memory that CUDA itself takes in each process, approximately; torch does not report it."""


@dataclass(frozen=True)
class Preflight:
    """A study that can start, with the measurements of its first steps in each arena; no result depends on them.

    Attributes:
        costs: the costs of the first steps.
        evaluation_seconds: seconds of an evaluation of the larger split, scaled from one batch, by arena.
    """

    study: ResolvedSuite
    costs: Costs
    evaluation_seconds: Mapping[str, float]

    @property
    def step_seconds(self) -> dict[str, float]:
        """The seconds of a training step, a mean over the optimizers, by arena."""
        return {arena: fmean(cost.seconds for cost in costs) for arena, costs in self._by_arena.items()}

    @property
    def start_seconds(self) -> dict[str, float]:
        """The seconds from the start of a program to its first step, a mean over the optimizers, by arena."""
        return {arena: fmean(cost.start_seconds for cost in costs) for arena, costs in self._by_arena.items()}

    @property
    def gpu_bytes(self) -> dict[str, int]:
        """The largest GPU memory that torch allocated in the first steps, by arena; 0 without a GPU."""
        return {arena: max(cost.gpu_bytes for cost in costs) for arena, costs in self._by_arena.items()}

    @property
    def gpu_free_bytes(self) -> int:
        """The GPU memory that a process can have; 0 without a GPU, and if only programs were measured."""
        found = [cost.gpu_free_bytes for costs in self._by_arena.values() for cost in costs]
        return min(filter(None, found), default=0)  # 0 for a program, whose memory is not measured

    @property
    def unmeasured(self) -> list[str]:
        """The arenas in which the time of a trial is not known."""
        return [arena for arena, costs in self._by_arena.items() if any(cost.unmeasured for cost in costs)]

    @property
    def told_by_name(self) -> list[str]:
        """The arenas whose program makes the optimizer itself, by its name."""
        return [arena for arena, costs in self._by_arena.items() if any(cost.told_by_name for cost in costs)]

    @property
    def rewritten(self) -> dict[str, str]:
        """A file that each run of a program writes again in its folder, for each arena that has one."""
        files = {}
        for arena, costs in self._by_arena.items():
            for cost in costs:
                if cost.rewritten:
                    files[arena] = cost.rewritten
        return files

    @property
    def _by_arena(self) -> dict[str, list[FirstSteps]]:
        """The costs of the optimizers of each arena."""
        costs_of: dict[str, list[FirstSteps]] = {arena: [] for arena in self.study.suite.arenas}
        for cost_of_arena in self.costs.values():
            for arena, cost in cost_of_arena.items():
                costs_of[arena].append(cost)
        return costs_of

    def resumes(self, spec: TrialSpec) -> bool:
        """Whether an interrupted trial resumes from its checkpoint and gives the same result."""
        return not self.costs[spec.optimizer.name][spec.arena.name].restart_reason

    def changes_of_slot(self, spec: TrialSpec) -> Mapping[str, Any]:
        """The attributes of the slot of a trial that have other values than for most trials."""
        changes: dict[str, Any] = {}
        if not self.resumes(spec):
            changes["checkpoints"] = ""
        if spec.arena.name in self.rewritten:
            changes["alone_in_folder"] = True
        return changes

    def sharing_notice(self, slots: int) -> str:
        """A message on trials that wait for each other, since they write the same file; empty if none waits."""
        if slots == 1:
            return ""
        lines = []
        for arena, file in self.rewritten.items():
            lines.append(
                f"{arena}: each run writes {file} in the folder in which the program runs, so that one trial of a "
                "folder runs at a time; let it write into {out} to run several"
            )
        return "\n".join(lines)

    def restart_notice(self) -> str:
        """A message on the trials that restart when they are interrupted, and why; empty if all trials resume."""
        lines = []
        for optimizer, cost_of_arena in self.costs.items():
            reasons = [(cost.restart_reason, arena) for arena, cost in cost_of_arena.items() if cost.restart_reason]
            arenas_of = grouped(reasons)
            for reason, arenas in arenas_of.items():
                lines.append(f"  {optimizer} ({', '.join(arenas)}): {reason}")
        if not lines:
            return ""
        return "\n".join(["these trials restart when they are interrupted:", *lines])


def trial_seconds(preflight: Preflight, arena: str, optimizer: str) -> Mapping[str, float]:
    """The expected seconds of a trial of each stage. A final trial is also evaluated on the test split."""
    suite = preflight.study.suite
    plan = suite.arenas[arena]
    cost = preflight.costs[optimizer][arena]
    evaluation = preflight.evaluation_seconds[arena]
    sweep_steps = plan.sweep_steps * cost.seconds
    final_steps = plan.steps * cost.seconds
    return {
        "sweep": cost.start_seconds + sweep_steps + suite.sweep.evaluations * evaluation,
        "final": cost.start_seconds + final_steps + (suite.final.evaluations + 1) * evaluation,
    }


def time_limits(preflight: Preflight, trial_timeout: float) -> dict[str, float]:
    """The seconds that a trial of each arena may take: `trial_timeout`, or a generous limit if that is 0."""
    limits = {}
    suite = preflight.study.suite
    for arena in suite.arenas:
        longest = max(max(trial_seconds(preflight, arena, name).values()) for name in suite.optimizers_of(arena))
        limit = LEAST_LIMIT + LIMIT_RATIO * longest
        if arena in preflight.unmeasured:
            limit = UNMEASURED_LIMIT
        limits[arena] = trial_timeout or limit
    return limits


def check_gpu_memory(preflight: Preflight, sharing: int) -> None:
    """Raise `UsageError` unless `sharing` concurrent trials fit on one GPU, by the memory of their first steps."""
    gpu_bytes = preflight.gpu_bytes
    gpu_free_bytes = preflight.gpu_free_bytes
    largest = max(gpu_bytes, key=lambda arena: gpu_bytes[arena])
    taken = gpu_bytes[largest] + CONTEXT_BYTES
    free = gpu_free_bytes + CONTEXT_BYTES
    if gpu_free_bytes and free < sharing * taken and sharing > 1:
        raise UsageError(
            f"--trials-per-gpu {sharing}: a trial of arena {largest} takes {taken / 1e9:.1f} GB of a GPU with "
            f"{free / 1e9:.1f} GB free; at most {max(free // taken, 1)} fit"
        )
