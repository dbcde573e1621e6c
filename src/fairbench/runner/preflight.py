"""From a suite to a study: what can be known of arenas and optimizers before any trial runs.

Each part is found out in a process of its own, so that no optimizer sees what another one, or an arena, has left.
"""

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbench.common.errors import UsageError
from fairbench.optimizers.resolve import load_factory, resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan, ResolvedOptimizer
from fairbench.study.plan import ResolvedArena, Study, trial_spec
from fairbench.study.preflight import Rehearsal
from fairbench.suites.schema import Suite
from fairbench.suites.schema import Training as TrainingPlan
from fairbench.training.place import Place

if TYPE_CHECKING:
    from torch import nn

    from fairbench.arenas.base import Arena
    from fairbench.data.splits import Data


REHEARSED = 2
"""Steps of every optimizer in every arena."""
Call = Callable[..., Any]
"""Calls a function of a module with plain arguments, in a process of its own; what it returns is plain JSON."""


def rehearse(suite: Suite, place: Place, call: Call) -> Rehearsal:
    """Load the data, build every model, and let every optimizer take two steps in every arena.

    Raises:
        UsageError: an optimizer, a hyperparameter, data or the device is not there, or cannot work.
    """
    found = call(arenas_and_environment, suite, place)
    arenas = {name: ResolvedArena(**fields) for name, fields in found["arenas"].items()}
    study = Study(suite, place.kind, arenas, {}, found["environment"])
    optimizers, mechanisms, anew, room = {}, {}, {}, []
    seconds, taken = dict.fromkeys(suite.arenas, 0.0), dict.fromkeys(suite.arenas, 0)
    for name, plan in suite.optimizers.items():
        seen = call(optimizer_and_seconds, study, name, plan, place)
        optimizers[name] = ResolvedOptimizer(**seen["optimizer"])
        mechanisms[name], anew[name] = seen["mechanisms"], seen["anew"]
        seconds = {arena: max(longest, seen["seconds"][arena]) for arena, longest in seconds.items()}
        taken = {arena: max(most, seen["gpu_bytes"][arena]) for arena, most in taken.items()}
        room.append(seen["gpu_room"])
    complete = replace(study, optimizers=optimizers)
    pace = seconds, found["evaluation_seconds"]
    return Rehearsal(complete, *pace, mechanisms, taken, min(room), found["gpus"], anew)


def arenas_and_environment(suite: Suite, place: Place) -> dict[str, Any]:
    """The arenas of a suite as they are here, how long an evaluation takes, and what this machine is and has.

    No optimizer is loaded.

    Raises:
        UsageError: the data, the model, the batch size or the device is impossible, or an arena breaks its contract.
    """
    import torch

    from fairbench.arenas.checks import check_loss, check_scores, same_data
    from fairbench.arenas.registry import load_arena
    from fairbench.runner.code_identity import arena_code
    from fairbench.training.determinism import one_thread, weights_hash
    from fairbench.training.environment import check_device, environment, gpu_names

    check_device(place.device)
    arenas, seconds = {}, {}
    for name, plan in suite.arenas.items():
        before, task = set(sys.modules), suite.task(name)
        arena = load_arena(task)
        with _named(f"arenas.{name}.data: {dict(plan.data)} is impossible"):
            data = same_data(arena, plan.data, Path(place.data_root), suite.facts(name).labelled)
        if plan.batch_size > (most := len(data.train)):
            raise UsageError(
                f"arenas.{name}.batch_size must be at most {most}, the training examples; got {plan.batch_size}"
            )
        starts = {}
        with one_thread(), _named(f"arenas.{name}.model: {dict(plan.model)} is impossible"):
            for seed in (*suite.sweep.seeds, *suite.final.seeds):
                torch.manual_seed(seed)
                model = arena.build_model(data, **plan.model)
                starts[str(seed)] = weights_hash(model)
            batch = data.read(data.train[: min(plan.batch_size, 2)], None)
            check_loss(arena, model, batch)
            check_scores(arena, model, batch, data, suite.facts(name).metrics)
            seconds[name] = _evaluation_seconds(arena, model.to(place.device), data, suite.training)
        arenas[name] = asdict(ResolvedArena(data.fingerprint, arena_code(task, before), starts))
    machine = {"environment": environment(place.device), "gpus": gpu_names() if place.kind == "cuda" else []}
    return {"arenas": arenas, "evaluation_seconds": seconds, **machine}


def _evaluation_seconds(arena: "Arena", model: "nn.Module", data: "Data", training: TrainingPlan) -> float:
    """How long an evaluation of the larger split takes: its first batch, scaled; one example goes before it."""
    import torch

    from fairbench.training.evaluation import CHUNK, evaluate

    device, batch_size = next(model.parameters()).device.type, training.evaluation_batch_size
    split = max(data.splits["val"], data.splits["test"], key=len)
    probe, seconds = split, 0.0
    for examples in (1, min(batch_size, CHUNK)):
        probe = split[:examples]
        began = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=training.precision == "bfloat16"):
            evaluate(arena, model, replace(data, splits={"probe": probe}), "probe", batch_size)
        seconds = time.perf_counter() - began
    return seconds * len(split) / len(probe)


def optimizer_and_seconds(study: Study, name: str, plan: OptimizerPlan, place: Place) -> dict[str, Any]:
    """One optimizer with all that takes part in its steps, what they take, what its mechanism tells of them.

    And whether its trials go on from a checkpoint: one is saved after these steps, and goes on beside one from there.

    Raises:
        UsageError: it is not there, cannot be built, or fails in its first steps.
    """
    from fairbench.runner.code_identity import optimizer_code
    from fairbench.training import environment
    from fairbench.training.determinism import one_thread
    from fairbench.training.resume_check import continuation, differs
    from fairbench.training.trainer import Training

    # An arena loads its own modules with the first training, and those are not the optimizer's.
    before = {*sys.modules, *(module for arena in study.arenas.values() for module in arena.code)}
    with _named(f"optimizers.{name}: cannot be loaded"):
        resolved = resolve_optimizer(name, plan, study.suite.sweep.extra)
    rehearsed, seconds, taken, mechanisms, anew = replace(study, optimizers={name: resolved}), {}, {}, {}, {}
    for arena in study.suite.arenas:
        with _named(f"optimizers.{name}: {resolved.factory} cannot be built"):
            lowest, seed = rehearsed.search(name).first()[0], study.suite.sweep.seeds[0]
            training = Training(trial_spec(rehearsed, arena, name, "final", lowest.lr, seed, lowest.extra), place)
        with _named(f"optimizers.{name}: {resolved.factory} fails in its first steps in arena {arena}"):
            for _ in range(REHEARSED):
                seconds[arena] = training.timed_step()
            training.mechanism.read(REHEARSED)
        mechanisms[arena] = training.mechanism.to_json()
        taken[arena] = environment.taken_of_gpu(training.device)
        room = environment.room_on_gpu(training.device)
        exact = place.kind == "cpu" or study.suite.training.deterministic
        with one_thread():
            first = continuation(training, REHEARSED, int(exact))
            del training  # it is in the way of the next one
            anew[arena] = first if isinstance(first, str) else differs(first)
    factories = [load_factory(x) for x in (resolved.factory, resolved.groups) if x]
    code = optimizer_code(map(inspect.unwrap, factories), before)
    resources = {"seconds": seconds, "gpu_bytes": taken, "gpu_room": room}
    return {"optimizer": asdict(replace(resolved, code=code)), "mechanisms": mechanisms, "anew": anew, **resources}


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Say of any exception, and of `sys.exit`, what could not be done."""
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what}: {type(error).__name__}: {error}") from error
