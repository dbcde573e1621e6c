"""The preflight of an arena with a training program: each optimizer trains a few steps, and its results are read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.study.plan import ResolvedSuite, trial_spec
from fairbench.study.record import WholeRecord, plain_values
from fairbench.training.place import Place

STEPS = 2
"""Steps of every optimizer before a study begins."""


def probe_program(study: ResolvedSuite, arena: str, place: Place) -> float:
    """The seconds of a step of a program with the one optimizer of a study, measured in two steps, its start included.

    With the first optimizer of a suite it runs with another seed too, which must change its losses.
    """
    ((name, _),) = study.optimizers.items()
    setting = study.search(name).first()[0]
    seeds = study.suite.final.seeds[: 2 if name == next(iter(study.suite.optimizers)) else 1]
    records = [_short_trial(study, arena, name, setting, seed, place) for seed in seeds]
    first, second = records[0], records[-1]
    if len(records) > 1 and _losses(first) == _losses(second):
        remedy = "pass {seed} to it, or fairbench.trial.current().seed"
        raise UsageError(f"arenas.{arena}: the program reports the same for seeds {seeds[0]} and {seeds[1]}; {remedy}")
    assert first.cost
    return first.cost.seconds.total / STEPS


def _short_trial(study: ResolvedSuite, arena: str, name: str, setting: Any, seed: int, place: Place) -> WholeRecord:
    from fairbench.training.program import ProgramFailed, program_trial
    from fairbench.training.program_results import WrongResults

    spec = trial_spec(study, arena, name, "final", setting.lr, seed, setting.extra)
    training = replace(spec.training, steps=STEPS, warmup_steps=min(spec.training.warmup_steps, 1), log_every=1)
    horizon = study.optimizers[name].horizon
    options = {**spec.optimizer.options, **({horizon: STEPS} if horizon else {})}
    short = replace(spec, training=training, optimizer=replace(spec.optimizer, options=options))
    try:
        return program_trial(short, place, lambda step, loss: None)
    except (ProgramFailed, WrongResults) as error:
        raise UsageError(f"arenas.{arena}, {STEPS} steps with {name}: {error}") from error


def _losses(record: WholeRecord) -> Mapping[str, Any]:
    assert record.details
    assert record.result
    return {"final": record.result.final, **plain_values(record.details)}
