"""Trials of a user's training program. Before a study, each optimizer trains a few steps, to check the program."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fairbench.arenas.program import ProgramOptions, code_of, content_hash, matched
from fairbench.common.errors import UsageError
from fairbench.optimizers.variant import VariantPlan
from fairbench.study.plan import ResolvedArena, ResolvedSuite, trial_spec
from fairbench.study.record import WholeRecord
from fairbench.suites.schema import Suite
from fairbench.suites.search import Setting
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program import ProgramFailed, program_trial
from fairbench.training.result_names import WrongResults

STEPS = 2
"""Steps of every optimizer before a study begins."""
run_trial = program_trial


def measured_arena(suite: Suite, name: str, slot: DeviceSlot) -> dict[str, Any]:
    """Resolve an arena: the hash of the files of its data, and its code.

    A program evaluates as a part of its steps and makes its own batches, so that neither is measured.
    """
    plan = suite.arenas[name]
    files = matched(plan.data.get("files", ()), "data.files")
    code: dict[str, str] = {}
    if suite.noun != "variant":  # the code of a variant is its own
        code = code_of(ProgramOptions(**plan.model))
    resolved = ResolvedArena(content_hash(files), code, starts={})
    return {"resolved": asdict(resolved), "evaluation_seconds": 0.0, "probed": plan.batch_size}


def variant_code(suite: Suite, variant: VariantPlan) -> dict[str, str]:
    """The code of a variant in all arenas of a suite, without files in the folders of other variants."""
    if variant.commit:
        return {}  # the commit is its identity
    folder = Path(variant.folder)
    code = {}
    for plan in suite.arenas.values():
        options = ProgramOptions(**plan.model)
        code.update(code_of(options, variant.args, folder))
    others = [
        plan.variant.folder
        for plan in suite.optimizers.values()
        if plan.variant and plan.variant.folder and not plan.variant.commit
    ]
    inner = [Path(other).resolve() for other in others]
    inner = [other for other in inner if other != folder.resolve() and other.is_relative_to(folder.resolve())]
    own = {}
    for file, sha in code.items():
        path = (folder / file).resolve()
        if not any(path.is_relative_to(other) for other in inner):
            own[file] = sha
    return own


def first_steps(study: ResolvedSuite, arena: str, slot: DeviceSlot, examples: int) -> dict[str, Any]:
    """The seconds of a step of a program with the one optimizer of a study. The start of the program is included.

    With the first optimizer of a suite, the program also runs with another seed, which must change what it reports.
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
    """The curves and the final metrics that a program reported."""
    final = record.result.final if record.result else None
    return record.details, final


def _short_trial(
    study: ResolvedSuite, arena: str, name: str, setting: Setting, seed: int, slot: DeviceSlot
) -> WholeRecord:
    """Run a trial of STEPS steps, and return its record. Raises `UsageError` if the program fails."""
    spec = trial_spec(study, arena, name, stage="final", lr=setting.lr, seed=seed, extra=setting.extra)
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
