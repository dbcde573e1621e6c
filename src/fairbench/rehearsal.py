"""From a suite to a study: what can be known of arenas and optimizers before any trial runs.

Each part is found out in a process of its own, so that no optimizer sees what another one, or an arena, has left.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fairbench.errors import UsageError
from fairbench.executors import Place
from fairbench.optimizers import ResolvedOptimizer, load_factory, resolve_optimizer
from fairbench.plan import ResolvedArena, Study, trial_spec
from fairbench.suite import OptimizerPlan, Suite

Call = Callable[..., Any]
"""Calls a function of a module with plain arguments, in a process of its own; what it returns is plain JSON."""


@dataclass(frozen=True)
class Rehearsal:
    """A study that can begin.

    Attributes:
        study: the study.
        step_seconds: of each arena, how long the slowest optimizer's step took; nothing that numbers depend on.
        gpu_bytes: of each arena, the most that torch took of a GPU for the first steps; 0 without one.
        gpu_room: bytes of the GPU that a process can have; 0 without one.
    """

    study: Study
    step_seconds: Mapping[str, float]
    gpu_bytes: Mapping[str, int]
    gpu_room: int


def rehearse(suite: Suite, place: Place, call: Call) -> Rehearsal:
    """Load the data, build every model, and let every optimizer take two steps in every arena.

    Raises:
        UsageError: an optimizer, a hyperparameter, data or the device is not there, or cannot work.
    """
    found = call(arenas_and_environment, suite, place)
    arenas = {name: ResolvedArena(**fields) for name, fields in found["arenas"].items()}
    study = Study(suite, place.kind, arenas, {}, found["environment"])
    optimizers, seconds, taken = {}, dict.fromkeys(suite.arenas, 0.0), dict.fromkeys(suite.arenas, 0)
    room = []
    for name, plan in suite.optimizers.items():
        seen = call(optimizer_and_seconds, study, name, plan, place)
        optimizers[name] = ResolvedOptimizer(**seen["optimizer"])
        seconds = {arena: max(longest, seen["seconds"][arena]) for arena, longest in seconds.items()}
        taken = {arena: max(most, seen["gpu_bytes"][arena]) for arena, most in taken.items()}
        room.append(seen["gpu_room"])
    return Rehearsal(replace(study, optimizers=optimizers), seconds, taken, min(room))


def arenas_and_environment(suite: Suite, place: Place) -> dict[str, Any]:
    """The arenas of a suite as they are here, and what this machine is; no optimizer is loaded.

    Raises:
        UsageError: the model, the batch size or the device is impossible.
    """
    import torch

    from fairbench.arenas import load_arena
    from fairbench.code import arena_code
    from fairbench.data.sources import load_data
    from fairbench.environment import check_device, environment
    from fairbench.trial import one_thread, weights_hash

    check_device(place.device)
    arenas = {}
    for name, plan in suite.arenas.items():
        arena = load_arena(suite.task(name))
        data = load_data(plan.data, Path(place.data_root))
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
            arena.loss(model, *arena.examples(batch, torch.Generator()))
        arenas[name] = asdict(ResolvedArena(data.fingerprint, arena_code(suite.task(name)), starts))
    return {"arenas": arenas, "environment": environment(place.device)}


def optimizer_and_seconds(study: Study, name: str, plan: OptimizerPlan, place: Place) -> dict[str, Any]:
    """One optimizer with all that takes part in its steps, and what a step of it takes in each arena.

    Raises:
        UsageError: it is not there, cannot be built, or fails in its first steps.
    """
    from fairbench import environment
    from fairbench.code import optimizer_code
    from fairbench.trial import Training

    decays = study.suite.sweep.weight_decays
    before = set(sys.modules)
    with _named(f"optimizers.{name}: cannot be loaded"):
        resolved = resolve_optimizer(name, plan, ("lr", *["weight_decay"] * bool(decays)))
    rehearsed, seconds, taken = replace(study, optimizers={name: resolved}), {}, {}
    for arena in study.suite.arenas:
        with _named(f"optimizers.{name}: {resolved.factory} cannot be built"):
            seed, decay = study.suite.sweep.seeds[0], decays[0] if decays else None
            training = Training(trial_spec(rehearsed, arena, name, "final", 1e-3, seed, decay), place)
        with _named(f"optimizers.{name}: {resolved.factory} fails in its first steps in arena {arena}"):
            for _ in range(2):
                seconds[arena] = training.timed_step()
        taken[arena] = environment.taken_of_gpu(training.device)
        room = environment.room_on_gpu(training.device)
        del training  # it is in the way of the next one
    factories = [load_factory(x) for x in (resolved.factory, resolved.groups) if x]
    code = optimizer_code(map(inspect.unwrap, factories), before)
    resources = {"seconds": seconds, "gpu_bytes": taken, "gpu_room": room}
    return {"optimizer": asdict(replace(resolved, code=code)), **resources}


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Say of any exception, and of `sys.exit`, what could not be done."""
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what}: {type(error).__name__}: {error}") from error
