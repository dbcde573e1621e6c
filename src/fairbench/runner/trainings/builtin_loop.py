"""Trials that fairbench trains itself: the measurement of arenas and optimizers before a study, and each trial."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

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
from fairbench.runner.trainings.measured import MeasuredArena
from fairbench.study.first_steps import FirstSteps
from fairbench.study.planned_trial import trial_spec
from fairbench.study.record import WholeRecord
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.schema import Suite
from fairbench.suites.stages import Training
from fairbench.training import device_memory
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.determinism import one_thread, same_order
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.digests import weights_hash
from fairbench.training.evaluation import CHUNK, evaluate
from fairbench.training.phase_timer import work_seconds
from fairbench.training.resume_check import resume_check
from fairbench.training.trainer import FIRST_STEPS, Progress, Trainer
from fairbench.training.trial import trial

PROBE_SECONDS = {"evaluation": 6.0, "steps": 20.0}
"""The most seconds that a preflight spends in an arena, by an estimate: for its evaluation, and for all its steps."""
STEPS = 4
"""Steps of every optimizer in every arena: the first two, and one each before and after it resumes."""
USUAL_STEPS = 10
"""Further steps of every optimizer in every arena, which are timed."""
USUAL_SECONDS = 0.25
"""The most seconds that these take together, by the time of the second step. Slow steps are not repeated."""
STEP_COST = 3.0
"""The approximate duration of a training step, as a multiple of an evaluation of the same examples."""


def measured_arena(suite: Suite, name: str, slot: DeviceSlot) -> MeasuredArena:
    """Load the data of an arena, build its model for each seed, and measure an evaluation.

    Raises:
        UsageError: the data or the model cannot be made, or the arena's methods fail with them.
    """
    plan = suite.arenas[name]
    facts = suite.facts(name)
    before = set(sys.modules)
    arena = load_arena(suite.task(name))
    with _explained(f"arenas.{name}.data: {dict(plan.data)} is impossible"):
        data = checked_data(arena, plan.data, Path(slot.data_root), facts.labelled)
    examples = len(data.train)
    if plan.batch_size > examples:
        raise UsageError(
            f"arenas.{name}.batch_size must be at most {examples}, the training examples; got {plan.batch_size}"
        )
    impossible = f"arenas.{name}.model: {dict(plan.model)} is impossible"
    starts = {}
    with one_thread(), _explained(impossible):
        for seed in (*suite.sweep.seeds, *suite.final.seeds):
            torch.manual_seed(seed)
            model = arena.build_model(data, **plan.model)
            starts[str(seed)] = weights_hash(model)
    has_known_data = "source" in plan.data
    blamed = impossible
    if not has_known_data:
        failing = f"arenas.{name}: {type(arena).__name__}.loss or scores fail with the model {dict(plan.model)}"
        blamed = f"{failing} and {described(arena, data)}"
    with one_thread(), _explained(blamed):
        check_outputs(arena, model, data, facts.metrics, plan.batch_size)
        per_example = _seconds_per_example(arena, model.to(slot.device), data, suite.training)
    probed = plan.batch_size
    if slot.kind == "cpu":
        affordable = PROBE_SECONDS["steps"] / (STEPS * STEP_COST * len(suite.optimizers) * per_example)
        probed = min(plan.batch_size, max(int(affordable), 2))  # batch norm needs two
    resolved = ResolvedArena(
        fingerprint=data.fingerprint,
        code=arena_code(arena, before),
        starts=starts,
        shared=data.shared if has_known_data else shared_rows(data.splits),
    )
    largest_split = max(len(data.splits["val"]), len(data.splits["test"]))
    return MeasuredArena(resolved=resolved, evaluation_seconds=per_example * largest_split, probed=probed)


def _seconds_per_example(arena: Arena, model: nn.Module, data: Data, training: Training) -> float:
    """The seconds of an evaluation per example, measured with a batch, or with as much of it as there is time for."""
    device = next(model.parameters()).device.type
    batch_size = training.evaluation_batch_size
    split = max(("val", "test"), key=lambda name: len(data.splits[name]))

    def seconds(examples: int) -> float:
        """The duration of an evaluation of the first examples."""
        began = work_seconds(torch.device(device))
        with torch.autocast(device, torch.bfloat16, enabled=training.precision == "bfloat16"):
            evaluate(arena, model, data, split, batch_size, most=examples)
        return work_seconds(torch.device(device)) - began

    seconds(1)  # it warms up
    single = seconds(1)
    affordable = int(PROBE_SECONDS["evaluation"] / single)
    examples = max(min(batch_size, CHUNK, len(data.splits[split]), affordable), 1)
    return seconds(examples) / examples


def first_steps(study: ResolvedSuite, arena: str, slot: DeviceSlot, examples: int) -> FirstSteps:
    """The cost of the first steps of the one optimizer of a study, in an arena.

    The steps are measured with `examples` examples, and their time is scaled to a whole batch. A checkpoint after the
    steps shows whether trials can resume: a training that is restored from it must take the same step as the training
    that continues.
    """
    ((name, resolved),) = study.optimizers.items()
    with _explained(f"optimizers.{name}: {resolved.factory} cannot be built", partial(remedy, name, is_built=False)):
        lowest = study.search(name).first()[0]
        seed = study.suite.sweep.seeds[0]
        spec = trial_spec(study, arena, name, stage="final", lr=lowest.lr, seed=seed, extra=lowest.extra)
        scale = spec.arena.batch_size / examples
        smaller = replace(spec.arena, batch_size=examples)
        trainer = Trainer(replace(spec, arena=smaller), slot)
    cause = f"optimizers.{name}: {resolved.factory} fails in its first steps in arena {arena}"
    with _explained(cause, partial(remedy, name, is_built=True)):
        for _ in range(FIRST_STEPS):
            seconds = trainer.timed_step(scale)
        trainer.mechanism.read(FIRST_STEPS)
    gpu_bytes, gpu_free_bytes, _ = device_memory.gpu_memory(trainer.device)
    deterministic = study.suite.training.deterministic
    with same_order(deterministic, slot.kind):
        restart_reason = resume_check(trainer, FIRST_STEPS, int(deterministic or slot.kind == "cpu"))
        with _explained(cause, partial(remedy, name, is_built=True)):
            seconds = _usual_seconds(trainer, seconds, scale)
        del trainer  # its memory is needed for the next one
        reason = restart_reason()
    return FirstSteps(seconds=seconds, gpu_bytes=gpu_bytes, gpu_free_bytes=gpu_free_bytes, restart_reason=reason)


def _usual_seconds(trainer: Trainer, second_step: float, scale: float) -> float:
    """The seconds of a step, a mean over the steps after the first ones if there is time for any.

    Some optimizers do a part of their work in each tenth step, and a second step is slower than later ones.
    """
    left = trainer.plan.steps - STEPS
    count = min(USUAL_STEPS, int(USUAL_SECONDS / second_step), left)
    if count < 1:
        return second_step
    return fmean(trainer.timed_step(scale) for _ in range(count))


def _explained(cause: str, remedy: Callable[[BaseException], str] = lambda _: "") -> AbstractContextManager[None]:
    """Turn any exception in a `with` block into a `UsageError` that names the cause, the exception and a remedy."""

    def message(error: BaseException) -> str:
        what = f"{cause}: {one_line(error)}"
        what_to_do = remedy(error)
        return f"{what}; {what_to_do}" if what_to_do else what

    return explained(message)


def run_trial(spec: TrialSpec, slot: DeviceSlot, progress: Progress) -> WholeRecord:
    """Run a trial and return its record. While it runs, the loaded code is compared with the code in its spec."""
    loaded = LoadedCode({**spec.arena.code, **spec.optimizer.code})

    def checked_progress(step: int, loss: float) -> None:
        loaded.check()
        progress(step, loss)

    checkpoint = None
    if slot.checkpoints and spec.stage != "timing":  # those steps are timed without interruption
        checkpoint = Checkpoint(spec, slot, loaded.check)
    with device_memory.explain_out_of_memory(slot.device):
        record = trial(spec, slot, checked_progress, checkpoint)
    loaded.check()
    return record
