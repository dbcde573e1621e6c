"""Trials that fairbench trains itself: what is measured of an arena and of an optimizer before them, and their run."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fairbench.arenas.base import Arena
from fairbench.arenas.checks import check_outputs, checked_data, described
from fairbench.arenas.registry import load_arena
from fairbench.common.errors import UsageError, explained, one_line
from fairbench.common.loaded_modules import LoadedCode
from fairbench.data.splits import Data, shared_rows
from fairbench.optimizers.needs import remedy
from fairbench.runner.code_identity import arena_code
from fairbench.study.plan import ResolvedArena, ResolvedSuite, trial_spec
from fairbench.study.record import WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.schema import Suite
from fairbench.suites.stages import Training
from fairbench.training import environment
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.determinism import one_thread, same_order
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.digests import weights_hash
from fairbench.training.resume_check import resume_check
from fairbench.training.trainer import CHUNK, FIRST_STEPS, Progress, Trainer, evaluate
from fairbench.training.trial import trial

PROBE_SECONDS = {"evaluation": 6.0, "steps": 20.0}
"""Seconds at most, by an estimate, in which an arena is evaluated, and trained by all optimizers together."""
STEPS = 4
"""Steps of every optimizer in every arena: the first two, and one each before and after it resumes."""
STEP_COST = 3.0
"""Seconds of a training step as a multiple of those of an evaluation, approximately."""


def measured_arena(suite: Suite, name: str, slot: DeviceSlot) -> dict[str, Any]:
    """An arena with its data and code, the seconds of an evaluation, and with how many examples a step is measured."""
    plan, before = suite.arenas[name], set(sys.modules)
    arena = load_arena(suite.task(name))
    with _explained(f"arenas.{name}.data: {dict(plan.data)} is impossible"):
        data = checked_data(arena, plan.data, Path(slot.data_root), suite.facts(name).labelled)
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
        per_example = _seconds_per_example(arena, model.to(slot.device), data, suite.training)
    affordable = PROBE_SECONDS["steps"] / (STEPS * STEP_COST * len(suite.optimizers) * per_example)
    most = max(int(affordable), 2) if slot.kind == "cpu" else plan.batch_size  # batch norm needs two
    shared = data.shared if "source" in plan.data else shared_rows(data.splits)
    return {
        "resolved": asdict(ResolvedArena(data.fingerprint, arena_code(arena, before), starts, shared)),
        "evaluation_seconds": per_example * max(len(data.splits["val"]), len(data.splits["test"])),
        "probed": min(plan.batch_size, most),
    }


def _seconds_per_example(arena: Arena, model: nn.Module, data: Data, training: Training) -> float:
    """Duration of an evaluation per example, measured with a batch or as much of it as the bound allows."""
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


def first_steps(study: ResolvedSuite, arena: str, slot: DeviceSlot, examples: int) -> dict[str, Any]:
    """The cost of the first steps of the one optimizer of a study, measured with some examples and scaled to a batch.

    A checkpoint after these steps shows whether its trials can resume: a training that is restored from it and one that
    continues must take the same step.
    """
    ((name, resolved),) = study.optimizers.items()
    with _explained(f"optimizers.{name}: {resolved.factory} cannot be built", partial(remedy, name, is_built=False)):
        lowest, seed = study.search(name).first()[0], study.suite.sweep.seeds[0]
        spec = trial_spec(study, arena, name, "final", lowest.lr, seed, lowest.extra)
        scale = spec.arena.batch_size / examples
        trainer = Trainer(replace(spec, arena=replace(spec.arena, batch_size=examples)), slot)
    cause = f"optimizers.{name}: {resolved.factory} fails in its first steps in arena {arena}"
    with _explained(cause, partial(remedy, name, is_built=True)):
        for _ in range(FIRST_STEPS):
            seconds = trainer.timed_step(scale)
        trainer.mechanism.read(FIRST_STEPS)
    gpu_bytes, gpu_free_bytes, _ = environment.gpu_memory(trainer.device)
    deterministic = study.suite.training.deterministic
    with same_order(deterministic, slot.kind):
        restart_reason = resume_check(trainer, FIRST_STEPS, int(deterministic or slot.kind == "cpu"))
        del trainer  # its memory is needed for the next one
        reason = restart_reason()
    memory = {"gpu_bytes": gpu_bytes, "gpu_free_bytes": gpu_free_bytes}
    return {"seconds": seconds, **memory, "restart_reason": reason}


def _explained(cause: str, remedy: Callable[[BaseException], str] = lambda _: "") -> AbstractContextManager[None]:
    """Turn any exception into a UsageError from `cause` to a remedy."""
    return explained(lambda error: "; ".join(filter(None, (f"{cause}: {one_line(error)}", remedy(error)))))


def run_trial(spec: TrialSpec, slot: DeviceSlot, progress: Progress) -> WholeRecord:
    """The record of a trial, whose code is compared with its spec as it runs."""
    loaded = LoadedCode({**spec.arena.code, **spec.optimizer.code})

    def checked_progress(step: int, loss: float) -> None:
        loaded.check()
        progress(step, loss)

    is_timed = spec.stage == "timing"  # its steps are timed without interruption
    checkpoint = Checkpoint(spec, slot, loaded.check) if slot.checkpoints and not is_timed else None
    with environment.explain_out_of_memory(slot.device):
        record = trial(spec, slot, checked_progress, checkpoint)
    loaded.check()
    return record
