"""The preflight of a suite: resolves and measures its arenas and optimizers before any trial runs.

Each part runs in a separate process, so that no optimizer sees the state of an arena or of another optimizer.
"""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbench.arenas.program import TASK, ProgramOptions, code_of, content_hash, matched
from fairbench.common.errors import UsageError, explained, one_line
from fairbench.common.formatting import merged, plural
from fairbench.optimizers.resolve import resolve_optimizer, way_out
from fairbench.optimizers.spec import BY_PROGRAM, HORIZON, OptimizerPlan, ResolvedOptimizer
from fairbench.runner.program_preflight import probe_program
from fairbench.study.measured import Preflight
from fairbench.study.plan import ResolvedArena, ResolvedSuite, trial_spec
from fairbench.suites.schema import Suite
from fairbench.suites.stages import Training
from fairbench.training.place import Place

if TYPE_CHECKING:
    from torch import nn

    from fairbench.arenas.base import Arena
    from fairbench.data.splits import Data


Call = Callable[..., Any]
"""Calls a module's function in a separate process; arguments are plain, the result is plain JSON."""
PROBE_SECONDS = {"evaluation": 6.0, "steps": 20.0}
"""Seconds at most, by an estimate, in which an arena is evaluated, and trained by all optimizers together."""
STEPS = 4
"""Steps of every optimizer in every arena: the first two, and one each before and after it resumes."""
STEP_COST = 3.0
"""Seconds of a training step as a multiple of those of an evaluation, approximately."""
QUIET_SECONDS = 5.0
"""Seconds between messages about progress."""


def run_preflight(suite: Suite, place: Place, call: Call, say: Callable[[str], None] = lambda text: None) -> Preflight:
    """Load the data, build every model, and take two steps with every optimizer in every arena; `call` runs each part.

    Arenas that differ only in the number of their steps and in their schedule are measured once, unless the optimizer
    has other options there or gets that number.
    """
    say(f"measuring {', '.join(suite.arenas)} with {plural(len(suite.optimizers), 'optimizer')}")
    said = time.monotonic()
    resolved = call(arenas_and_environment, suite, place)
    arenas = {name: ResolvedArena(**fields) for name, fields in resolved["arenas"].items()}
    study = ResolvedSuite(suite, place.kind, arenas, {}, resolved["environment"])
    if shared := merged((name, arena.shared) for name, arena in arenas.items() if arena.shared):
        say(shared)
    whole, probed = {name: arena.batch_size for name, arena in suite.arenas.items()}, resolved["probed"]
    if parts := [f"{name} {probed[name]} of {whole[name]}" for name in whole if probed[name] < whole[name]]:
        say(f"slow here: a step is measured with fewer examples and scaled to the batch: {', '.join(parts)}")
    measured = {}
    for i, (name, plan) in enumerate(suite.optimizers.items(), 1):
        if time.monotonic() - said > QUIET_SECONDS:
            say(f"measuring {name}, optimizer {i} of {len(suite.optimizers)}")
            said = time.monotonic()
        measured[name] = call(optimizer_and_seconds, study, name, plan, place, probed)
    optimizers = {name: ResolvedOptimizer(**x["optimizer"]) for name, x in measured.items()}
    for name, optimizer in optimizers.items():
        if optimizer.horizon not in ("", HORIZON):
            say(f"{name} gets the number of steps as {optimizer.horizon}; --set {name}.{optimizer.horizon}=N sets it")

    def largest(of: str) -> dict[str, Any]:
        return {arena: max(x[of][arena] for x in measured.values() if arena in x[of]) for arena in suite.arenas}

    for key in suite.sweep.extra:
        if all(key in optimizer.lacks for optimizer in optimizers.values() if optimizer.lr is None):
            raise UsageError(
                f"sweep.extra.{key}: no optimizer has an argument of that name; correct it or leave it out"
            )
    return Preflight(
        replace(study, optimizers=optimizers),
        step_seconds=largest("seconds"),
        evaluation_seconds=resolved["evaluation_seconds"],
        gpu_bytes=largest("gpu_bytes"),
        gpu_free_bytes=min(x["gpu_free_bytes"] for x in measured.values()),
        restart_reasons={name: x["restart_reasons"] for name, x in measured.items()},
    )


def arenas_and_environment(suite: Suite, place: Place) -> dict[str, Any]:
    """The resolved arenas of a suite, the duration of their evaluations, and the environment; loads no optimizer."""
    import torch

    from fairbench.arenas.checks import check_outputs, checked_data, described
    from fairbench.arenas.registry import load_arena
    from fairbench.data.splits import shared_rows
    from fairbench.runner.code_identity import arena_code
    from fairbench.training.determinism import one_thread, weights_hash
    from fairbench.training.environment import check_device, environment

    check_device(place.device)
    arenas, seconds, probed = {}, {}, {}
    first_alike = _first_alike(suite, dict.fromkeys(suite.arenas))
    for name in dict.fromkeys(first_alike.values()):
        plan = suite.arenas[name]
        if suite.task(name) == TASK:
            files = matched(plan.data.get("files", ()), "data.files")
            resolved = ResolvedArena(content_hash(files), code_of(ProgramOptions(**plan.model)), starts={})
            arenas[name], seconds[name], probed[name] = asdict(resolved), 0.0, plan.batch_size
            continue
        before = set(sys.modules)
        arena = load_arena(suite.task(name))
        with _explained(f"arenas.{name}.data: {dict(plan.data)} is impossible"):
            data = checked_data(arena, plan.data, Path(place.data_root), suite.facts(name).labelled)
        if plan.batch_size > (most := len(data.train)):
            raise UsageError(
                f"arenas.{name}.batch_size must be at most {most}, the training examples; got {plan.batch_size}"
            )
        starts, impossible = {}, f"arenas.{name}.model: {dict(plan.model)} is impossible"
        with one_thread(), _explained(impossible):
            for seed in (*suite.sweep.seeds, *suite.final.seeds):
                torch.manual_seed(seed)
                model = arena.build_model(data, **plan.model)
                starts[str(seed)] = weights_hash(model)
        own = f"arenas.{name}: {type(arena).__name__}.loss or scores fail with the model {dict(plan.model)}"
        blamed = impossible if "source" in plan.data else f"{own} and {described(arena, data)}"
        with one_thread(), _explained(blamed):
            check_outputs(arena, model, data, suite.facts(name).metrics, plan.batch_size)
            per_example = _seconds_per_example(arena, model.to(place.device), data, suite.training)
            seconds[name] = per_example * max(len(data.splits["val"]), len(data.splits["test"]))
            affordable = PROBE_SECONDS["steps"] / (STEPS * STEP_COST * len(suite.optimizers) * per_example)
            most = max(int(affordable), 2) if place.kind == "cpu" else plan.batch_size  # batch norm needs two
            probed[name] = min(plan.batch_size, most)
        shared = data.shared if "source" in plan.data else shared_rows(data.splits)
        arenas[name] = asdict(ResolvedArena(data.fingerprint, arena_code(arena, before), starts, shared))
    measured = _for_all(first_alike, arenas=arenas, evaluation_seconds=seconds, probed=probed)
    return {**measured, "environment": environment(place.device)}


def _first_alike(suite: Suite, arenas: Mapping[str, Any]) -> dict[str, str]:
    """For each arena the first one whose steps are the same but for their number and their learning rates.

    The values of `arenas` are what an optimizer gets for an arena alone.
    """
    plans = {name: (suite.arenas[name], own) for name, own in arenas.items()}
    keys = {name: (suite.task(name), x.data, x.model, x.batch_size, x.shock, own) for name, (x, own) in plans.items()}
    return {name: next(other for other in keys if keys[other] == key) for name, key in keys.items()}


def _for_all(first_alike: Mapping[str, str], **measured: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Measurements of the first arenas, for all that are alike."""
    return {of: {name: x[first] for name, first in first_alike.items()} for of, x in measured.items()}


def _seconds_per_example(arena: "Arena", model: "nn.Module", data: "Data", training: Training) -> float:
    """Duration of an evaluation per example, measured with a batch or as much of it as the bound allows."""
    import torch

    from fairbench.training.trainer import CHUNK, evaluate

    device, batch_size = next(model.parameters()).device.type, training.evaluation_batch_size
    split = max(("val", "test"), key=lambda name: len(data.splits[name]))

    def seconds(examples: int) -> float:
        began = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=training.precision == "bfloat16"):
            evaluate(arena, model, data, split, batch_size, most=examples)
        return time.perf_counter() - began

    _, single = seconds(1), seconds(1)  # the first one warms up
    affordable = int(PROBE_SECONDS["evaluation"] / single)
    examples = max(min(batch_size, CHUNK, len(data.splits[split]), affordable), 1)
    return seconds(examples) / examples


def optimizer_and_seconds(
    study: ResolvedSuite, name: str, plan: OptimizerPlan, place: Place, probed: Mapping[str, int]
) -> dict[str, Any]:
    """An optimizer, resolved, with the code and the cost of its first steps, scaled from the `probed` examples.

    A checkpoint after these steps shows whether its trials can resume: a training that is restored from it and one that
    continues must take the same step.
    """
    from fairbench.runner.code_identity import optimizer_code
    from fairbench.training import environment
    from fairbench.training.determinism import one_thread, same_order
    from fairbench.training.resume_check import resume_check
    from fairbench.training.trainer import FIRST_STEPS, Trainer

    # The first training loads the arena's modules, which are not the optimizer's.
    before = {*sys.modules, *(module for arena in study.arenas.values() for module in arena.code)}
    with _explained(f"optimizers.{name}: cannot be loaded"):
        resolved = resolve_optimizer(name, plan, study.suite.sweep.extra)
    alone = replace(study, optimizers={name: resolved})
    seconds, gpu_bytes, restart_reasons = {}, {}, {}
    trained = {arena: study.suite.arenas[arena] for arena, optimizer in study.suite.arms if optimizer == name}
    own = {x: (resolved.arenas.get(x), plan.steps if resolved.horizon else 0) for x, plan in trained.items()}
    first_alike = _first_alike(study.suite, own)
    gpu_free_bytes = 0
    for arena in dict.fromkeys(first_alike.values()):
        if study.suite.task(arena) == TASK:
            seconds[arena] = probe_program(alone, arena, place)
            gpu_bytes[arena], restart_reasons[arena] = 0, ""
            continue
        with _explained(
            f"optimizers.{name}: {resolved.factory} cannot be built", partial(way_out, name, is_built=False)
        ):
            lowest, seed = alone.search(name).first()[0], study.suite.sweep.seeds[0]
            spec = trial_spec(alone, arena, name, "final", lowest.lr, seed, lowest.extra)
            scale = spec.arena.batch_size / probed[arena]
            trainer = Trainer(replace(spec, arena=replace(spec.arena, batch_size=probed[arena])), place)
        cause = f"optimizers.{name}: {resolved.factory} fails in its first steps in arena {arena}"
        with _explained(cause, partial(way_out, name, is_built=True)):
            for _ in range(FIRST_STEPS):
                seconds[arena] = trainer.timed_step(scale)
            trainer.mechanism.read(FIRST_STEPS)
        gpu_bytes[arena], gpu_free_bytes, _ = environment.gpu_memory(trainer.device)
        deterministic = study.suite.training.deterministic
        with one_thread(), same_order(deterministic and place.kind == "cuda"):
            restart_reason = resume_check(trainer, FIRST_STEPS, int(deterministic or place.kind == "cpu"))
            del trainer  # its memory is needed for the next one
            restart_reasons[arena] = restart_reason()
    code = optimizer_code([x for x in (resolved.factory, resolved.groups) if x not in ("", BY_PROGRAM)], before)
    measured = _for_all(first_alike, restart_reasons=restart_reasons, seconds=seconds, gpu_bytes=gpu_bytes)
    return {**measured, "optimizer": asdict(replace(resolved, code=code)), "gpu_free_bytes": gpu_free_bytes}


def _explained(cause: str, remedy: Callable[[BaseException], str] = lambda _: "") -> AbstractContextManager[None]:
    """Turn any exception into a UsageError from `cause` to a remedy."""
    return explained(lambda error: "; ".join(filter(None, (f"{cause}: {one_line(error)}", remedy(error)))))
