"""Trials of a training program: before a study, each optimizer trains a few steps, and its results are read."""

from dataclasses import asdict, replace
from typing import Any

from fairbench.arenas.program import ProgramOptions, code_of, content_hash, matched
from fairbench.common.errors import UsageError
from fairbench.study.plan import ResolvedArena, ResolvedSuite, trial_spec
from fairbench.study.record import WholeRecord
from fairbench.suites.schema import Suite
from fairbench.suites.search import Setting
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program import ProgramFailed, program_trial
from fairbench.training.result_files import WrongResults

STEPS = 2
"""Steps of every optimizer before a study begins."""
run_trial = program_trial


def measured_arena(suite: Suite, name: str, slot: DeviceSlot) -> dict[str, Any]:
    """An arena with the files of its data and its code; a program evaluates in its steps, and has its own batches."""
    plan = suite.arenas[name]
    files = matched(plan.data.get("files", ()), "data.files")
    resolved = ResolvedArena(content_hash(files), code_of(ProgramOptions(**plan.model)), starts={})
    return {"resolved": asdict(resolved), "evaluation_seconds": 0.0, "probed": plan.batch_size}


def first_steps(study: ResolvedSuite, arena: str, slot: DeviceSlot, examples: int) -> dict[str, Any]:
    """The seconds of a step of a program with the one optimizer of a study, measured in two steps, its start included.

    With the first optimizer of a suite it runs with another seed too, which must change its losses.
    """
    ((name, _),) = study.optimizers.items()
    setting = study.search(name).first()[0]
    seeds = study.suite.final.seeds
    record = _short_trial(study, arena, name, setting, seeds[0], slot)
    is_first = name == next(iter(study.suite.optimizers))
    if is_first and len(seeds) > 1:
        other = _short_trial(study, arena, name, setting, seeds[1], slot)
        if _reported(record) == _reported(other):
            remedy = "pass {seed} to it, or fairbench.trial.current().seed"
            both = f"{seeds[0]} and {seeds[1]}"
            raise UsageError(f"arenas.{arena}: the program reports the same for seeds {both}; {remedy}")
    assert record.cost
    seconds = record.cost.seconds.total / STEPS
    return {"seconds": seconds, "gpu_bytes": 0, "gpu_free_bytes": 0, "restart_reason": ""}


def _reported(record: WholeRecord) -> tuple[Any, Any]:
    """What a program reported: its curves, and its final metrics."""
    final = record.result.final if record.result else None
    return record.details, final


def _short_trial(
    study: ResolvedSuite, arena: str, name: str, setting: Setting, seed: int, slot: DeviceSlot
) -> WholeRecord:
    spec = trial_spec(study, arena, name, "final", setting.lr, seed, setting.extra)
    training = replace(spec.training, steps=STEPS, warmup_steps=min(spec.training.warmup_steps, 1), log_every=1)
    options = dict(spec.optimizer.options)
    horizon = study.optimizers[name].horizon
    if horizon:
        options[horizon] = STEPS
    short = replace(spec, training=training, optimizer=replace(spec.optimizer, options=options))
    try:
        return program_trial(short, slot, lambda step, loss: None)
    except (ProgramFailed, WrongResults) as error:
        raise UsageError(f"arenas.{arena}, {STEPS} steps with {name}: {error}") from error
