"""The costs of the first steps of all optimizers in all arenas, put together for a study."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairbench.runner.trainings.measured import FirstSteps
from fairbench.study.preflight_result import Preflight
from fairbench.study.resolved_suite import ResolvedSuite

Costs = Mapping[str, Mapping[str, FirstSteps]]
"""The costs of the first steps, by optimizer and arena."""


def preflight_of(study: ResolvedSuite, costs: Costs, evaluation_seconds: Mapping[str, float]) -> Preflight:
    """The measurements of a study: the costs of its first steps, and the seconds of an evaluation in each arena."""
    arenas = study.suite.arenas
    return Preflight(
        study,
        step_seconds=_largest(costs, "seconds", arenas),
        start_seconds=_largest(costs, "start_seconds", arenas),
        unmeasured=arenas_with(costs, "unmeasured"),
        told_by_name=arenas_with(costs, "told_by_name"),
        rewritten=_rewritten(costs),
        evaluation_seconds=evaluation_seconds,
        gpu_bytes=_largest(costs, "gpu_bytes", arenas),
        gpu_free_bytes=_least_free_memory(costs),
        restart_reasons=_restart_reasons(costs),
    )


def _least_free_memory(costs: Costs) -> int:
    """The fewest bytes of a GPU's memory that were free in a measurement; 0 if only programs were measured."""
    found = []
    for cost_of_arena in costs.values():
        found += [cost.gpu_free_bytes for cost in cost_of_arena.values()]
    return min(filter(None, found), default=0)  # 0 for a program, whose memory is not measured


def _restart_reasons(costs: Costs) -> dict[str, dict[str, str]]:
    """Why a trial of each optimizer in each arena would restart from its first step; empty if it would not."""
    reasons = {}
    for name, cost_of_arena in costs.items():
        reasons[name] = {arena: cost.restart_reason for arena, cost in cost_of_arena.items()}
    return reasons


def arenas_with(costs: Costs, mark: str) -> list[str]:
    """The arenas in which something holds with an optimizer. `mark` is the attribute of `FirstSteps` that says so."""
    arenas: set[str] = set()
    for cost_of_arena in costs.values():
        arenas.update(arena for arena, cost in cost_of_arena.items() if getattr(cost, mark))
    return sorted(arenas)


def _rewritten(costs: Costs) -> dict[str, str]:
    """A file that each run of a program writes again in its folder, for each arena that has one."""
    files = {}
    for cost_of_arena in costs.values():
        for arena, cost in cost_of_arena.items():
            if cost.rewritten:
                files[arena] = cost.rewritten
    return files


def _largest(costs: Costs, kind: str, arenas: Iterable[str]) -> dict[str, Any]:
    """The largest cost of one kind, an attribute of `FirstSteps`, in each arena over its optimizers."""
    found = {}
    for arena in arenas:
        of_arena = [cost_of_arena[arena] for cost_of_arena in costs.values() if arena in cost_of_arena]
        found[arena] = max(getattr(cost, kind) for cost in of_arena)
    return found
