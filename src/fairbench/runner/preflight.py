"""The preflight of a suite: resolves and measures its arenas and optimizers before any trial runs.

Each part runs in a separate process, so that no optimizer sees the state of an arena or of another optimizer.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from types import ModuleType
from typing import Any

from fairbench.common.errors import UsageError, explained, one_line
from fairbench.common.formatting import merged, plural
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import BY_PROGRAM, HORIZON, OptimizerPlan, ResolvedOptimizer
from fairbench.runner.trainings import training_of
from fairbench.study.plan import ResolvedArena, ResolvedSuite
from fairbench.study.preflight_result import Preflight
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot

Call = Callable[..., Any]
"""Calls a module's function in a separate process; arguments are plain, the result is plain JSON."""
QUIET_SECONDS = 5.0
"""Seconds between messages about progress."""


def run_preflight(
    suite: Suite, slot: DeviceSlot, call: Call, say: Callable[[str], None] = lambda text: None
) -> Preflight:
    """Load the data, build every model, and take two steps with every optimizer in every arena; `call` runs each part.

    Arenas that differ only in the number of their steps and in their schedule are measured once, unless the optimizer
    has other options there or gets that number.
    """
    say(f"measuring {', '.join(suite.arenas)} with {plural(len(suite.optimizers), 'optimizer')}")
    said = time.monotonic()
    resolved = call(arenas_and_environment, suite, slot)
    arenas = {name: ResolvedArena(**x["resolved"]) for name, x in resolved["arenas"].items()}
    study = ResolvedSuite(suite, slot.kind, arenas, {}, resolved["environment"])
    if shared := merged((name, arena.shared) for name, arena in arenas.items() if arena.shared):
        say(shared)
    whole = {name: arena.batch_size for name, arena in suite.arenas.items()}
    probed = {name: x["probed"] for name, x in resolved["arenas"].items()}
    if parts := [f"{name} {probed[name]} of {whole[name]}" for name in whole if probed[name] < whole[name]]:
        say(f"slow here: a step is measured with fewer examples and scaled to the batch: {', '.join(parts)}")
    measured = {}
    for i, (name, plan) in enumerate(suite.optimizers.items(), 1):
        if time.monotonic() - said > QUIET_SECONDS:
            say(f"measuring {name}, optimizer {i} of {len(suite.optimizers)}")
            said = time.monotonic()
        measured[name] = call(optimizer_and_seconds, study, name, plan, slot, probed)
    optimizers = {name: ResolvedOptimizer(**x["optimizer"]) for name, x in measured.items()}
    costs: dict[str, dict[str, Any]] = {name: x["arenas"] for name, x in measured.items()}
    for name, optimizer in optimizers.items():
        if optimizer.horizon not in ("", HORIZON):
            say(f"{name} gets the number of steps as {optimizer.horizon}; --set {name}.{optimizer.horizon}=N sets it")

    def largest(of: str) -> dict[str, Any]:
        return {arena: max(x[arena][of] for x in costs.values() if arena in x) for arena in suite.arenas}

    for key in suite.sweep.extra:
        if all(key in optimizer.lacks for optimizer in optimizers.values() if optimizer.lr is None):
            raise UsageError(
                f"sweep.extra.{key}: no optimizer has an argument of that name; correct it or leave it out"
            )
    free = [cost["gpu_free_bytes"] for of in costs.values() for cost in of.values()]  # 0 of a program
    return Preflight(
        replace(study, optimizers=optimizers),
        step_seconds=largest("seconds"),
        evaluation_seconds={name: x["evaluation_seconds"] for name, x in resolved["arenas"].items()},
        gpu_bytes=largest("gpu_bytes"),
        gpu_free_bytes=min(filter(None, free), default=0),
        restart_reasons={name: {x: cost["restart_reason"] for x, cost in of.items()} for name, of in costs.items()},
    )


def arenas_and_environment(suite: Suite, slot: DeviceSlot) -> dict[str, Any]:
    """What is measured of each arena of a suite, see `trainings.builtin_loop`, and the environment; loads no optimizer."""
    from fairbench.training.environment import check_device, environment

    check_device(slot.device)
    own = dict.fromkeys(suite.arenas)
    arenas = _measured(suite, own, lambda training, name: training.measured_arena(suite, name, slot))
    return {"arenas": arenas, "environment": environment(slot.device)}


def _measured(
    suite: Suite, arenas: Mapping[str, Any], measure: Callable[[ModuleType, str], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What is measured of each arena with the module of its training; alike arenas are measured once.

    Their steps are the same but for their number and their learning rates. The values of `arenas` are what an optimizer
    gets for an arena alone.
    """
    plans = {name: (suite.arenas[name], own) for name, own in arenas.items()}
    keys = {name: (suite.task(name), x.data, x.model, x.batch_size, x.shock, own) for name, (x, own) in plans.items()}
    first_alike = {name: next(other for other in keys if keys[other] == key) for name, key in keys.items()}
    found = {name: measure(training_of(suite.task(name)), name) for name in dict.fromkeys(first_alike.values())}
    return {name: found[first] for name, first in first_alike.items()}


def optimizer_and_seconds(
    study: ResolvedSuite, name: str, plan: OptimizerPlan, slot: DeviceSlot, probed: Mapping[str, int]
) -> dict[str, Any]:
    """An optimizer, resolved, with the code and the cost of its first steps, scaled from the `probed` examples."""
    from fairbench.runner.code_identity import optimizer_code

    # The first training loads the arena's modules, which are not the optimizer's.
    before = {*sys.modules, *(module for arena in study.arenas.values() for module in arena.code)}
    with explained(lambda error: f"optimizers.{name}: cannot be loaded: {one_line(error)}"):
        resolved = resolve_optimizer(name, plan, study.suite.sweep.extra)
    alone = replace(study, optimizers={name: resolved})
    trained = {arena: study.suite.arenas[arena] for arena, optimizer in study.suite.arms if optimizer == name}
    own = {x: (resolved.arenas.get(x), plan.steps if resolved.horizon else 0) for x, plan in trained.items()}
    arenas = _measured(
        study.suite, own, lambda training, arena: training.first_steps(alone, arena, slot, probed[arena])
    )
    code = optimizer_code([x for x in (resolved.factory, resolved.groups) if x not in ("", BY_PROGRAM)], before)
    return {"arenas": arenas, "optimizer": asdict(replace(resolved, code=code))}
