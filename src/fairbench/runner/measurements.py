"""The measurements of a preflight: of the arenas, and of one optimizer. Each runs in a process of its own."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from types import ModuleType
from typing import Any

from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import BY_PROGRAM, OptimizerPlan
from fairbench.runner.trainings import training_of
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.program_files import variant_files
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot


def arenas_and_environment(suite: Suite, slot: DeviceSlot) -> dict[str, Any]:
    """The measurements of each arena of a suite, and the environment. No optimizer is loaded.

    The measurements are those of `MeasuredArena`.
    """
    from fairbench.training.environment import check_device, environment, environment_of_program

    check_device(slot.device)

    def measure(training: ModuleType, arena: str) -> dict[str, Any]:
        return asdict(training.measured_arena(suite, arena, slot))

    options_by_arena = dict.fromkeys(suite.arenas)  # None: no optimizer takes part
    arenas = _measured(suite, options_by_arena, measure)
    facts = environment_of_program(slot.device)
    if not suite.trains_programs:
        facts = environment(slot.device)
    return {"arenas": arenas, "environment": facts}


def _measured(
    suite: Suite, options_by_arena: Mapping[str, Any], measure: Callable[[ModuleType, str], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The measurements of each arena by the module of its training. Alike arenas are measured once.

    Alike arenas differ only in the number of their steps and in their learning rates. The values of `options_by_arena`
    are what an optimizer gets for one arena; alike arenas have equal values.
    """
    kinds: list[tuple[Any, dict[str, Any]]] = []  # what the steps of alike arenas share, and their measurements
    measurements = {}
    for name, options in options_by_arena.items():
        plan = suite.arenas[name]
        kind = (suite.task(name), plan.data, plan.model, plan.batch_size, plan.shock, options)
        known = [measured for other, measured in kinds if other == kind]
        if known:
            measurements[name] = known[0]
        else:
            measurements[name] = measure(training_of(suite.task(name)), name)
            kinds.append((kind, measurements[name]))
    return measurements


def optimizer_and_seconds(
    study: ResolvedSuite, name: str, plan: OptimizerPlan, slot: DeviceSlot, probed: Mapping[str, int]
) -> dict[str, Any]:
    """Resolve an optimizer, and measure the cost of its first steps in each of its arenas.

    `probed` is the number of examples of a measured step in each arena. The cost is scaled from it to the whole batch.
    """
    from fairbench.runner.code_identity import optimizer_code

    before = {*sys.modules}  # modules that do not take part because of the optimizer
    for arena in study.arenas.values():  # the first training loads its modules, which are not the optimizer's
        before |= arena.code.keys()
    resolved = resolve_optimizer(name, plan, study.suite.sweep.extra)
    options_by_arena = {}
    for arena_name, optimizer in study.suite.arms:
        if optimizer == name:
            horizon = study.suite.arenas[arena_name].steps if resolved.horizon else 0
            options_by_arena[arena_name] = (resolved.arenas.get(arena_name), horizon)
    if resolved.variant is not None:
        resolved = replace(resolved, code=variant_files(study.suite, resolved.variant))
    alone = replace(study, optimizers={name: resolved})

    def measure(training: ModuleType, arena: str) -> dict[str, Any]:
        return asdict(training.first_steps(alone, arena, slot, probed[arena]))

    arenas = _measured(study.suite, options_by_arena, measure)
    if resolved.variant is None:
        named = (resolved.factory, resolved.groups)
        references = [reference for reference in named if reference not in ("", BY_PROGRAM)]
        resolved = replace(resolved, code=optimizer_code(references, before))
    return {"arenas": arenas, "optimizer": asdict(resolved)}
