"""The spec of a single trial of a study, and its timing trials."""

from typing import Any

from fairbench.optimizers.spec import WARMUP, ResolvedOptimizer
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.study.trial_spec import ArenaSpec, TrainingSpec, TrialSpec
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.schema import Suite
from fairbench.suites.search import NO_RATE, OtherValues, Search, Setting, search_for

TIMING_TRIALS = 5
"""Timing trials of each optimizer in each arena."""
TIMED_STEPS = 60
"""Training steps of a timing trial."""


def trial_spec(
    study: ResolvedSuite, arena: str, optimizer: str, stage: str, lr: float, seed: int, extra: OtherValues = ()
) -> TrialSpec:
    """The spec of one trial of a study. Hyperparameters that are not in `extra` have the optimizer's values."""
    task = _arena_spec(study.suite, arena, study.arenas[arena])
    setting = Setting(lr, extra)
    return _spec(study.suite, study.device, task, study.optimizers[optimizer], stage, setting, seed)


def unmeasured_trial(suite: Suite, device: str, arena: str, optimizer: ResolvedOptimizer) -> TrialSpec:
    """A final trial of an arena that is not measured yet: its spec has no hash of data, and no code."""
    task = _arena_spec(suite, arena, ResolvedArena(fingerprint="", code={}, starts={}))
    setting = _typical(search_for(suite.sweep, optimizer))
    return _spec(suite, device, task, optimizer, stage="final", setting=setting, seed=0)


def _arena_spec(suite: Suite, name: str, resolved: ResolvedArena) -> ArenaSpec:
    """The arena of a trial."""
    plan = suite.arenas[name]
    return ArenaSpec(
        name=name,
        task=suite.task(name),
        data=plan.data,
        model=plan.model,
        batch_size=plan.batch_size,
        fingerprint=resolved.fingerprint,
        code=resolved.code,
    )


def _spec(
    suite: Suite, device: str, task: ArenaSpec, optimizer: ResolvedOptimizer, stage: str, setting: Setting, seed: int
) -> TrialSpec:
    """The spec of a trial of an optimizer in an arena."""
    plan = suite.arenas[task.name]
    steps = _steps(plan, stage)
    evaluations = _evaluations(suite, stage)
    searched: dict[str, Any] = {}
    if setting.lr != NO_RATE:
        searched["lr"] = setting.lr
    searched.update(setting.extra)
    warmup_steps = searched.pop(WARMUP, suite.training.warmup_steps)
    schedule, min_lr = suite.schedule(task.name, optimizer.name)
    training = {
        **vars(suite.training),
        "clip_norm": suite.clip_norm(optimizer.name),
        WARMUP: warmup_steps,
        "schedule": schedule,
        "min_lr": min_lr,
        "steps": steps,
        "evaluations": evaluations,
        "selection": suite.selection,
        "decides": suite.decides,
        "shock": plan.shock,
        "device": device,
    }
    optimizer_spec = optimizer.spec(task.name, searched, steps)
    return TrialSpec(arena=task, optimizer=optimizer_spec, training=TrainingSpec(**training), stage=stage, seed=seed)


def _steps(plan: ArenaPlan, stage: str) -> int:
    """The number of training steps of a trial of a stage."""
    if stage == "sweep":
        return plan.sweep_steps
    if stage == "timing":
        return TIMED_STEPS
    return plan.steps


def _evaluations(suite: Suite, stage: str) -> int:
    """The number of evaluations of a trial of a stage."""
    if stage == "final":
        return suite.final.evaluations
    if stage == "timing":
        return 1
    return suite.sweep.evaluations


def timing_trials(study: ResolvedSuite) -> list[TrialSpec]:
    """Short trials that measure the cost of a step.

    The optimizers take turns, so that a drift of the machine's speed affects all of them alike.
    """
    suite = study.suite
    trials: list[TrialSpec] = []
    for arena, plan in suite.arenas.items():
        if plan.shock or plan.curve_only:  # neither a shock nor another length changes the cost of a step
            continue
        typical = [typical_trial(study, arena, name, "timing") for name in suite.optimizers]
        for seed in range(TIMING_TRIALS):
            for spec in typical:
                trials += spec.with_seeds([seed])
    return trials


def typical_trial(study: ResolvedSuite, arena: str, optimizer: str, stage: str) -> TrialSpec:
    """A trial with seed 0 and a setting from the middle of the optimizer's search, for stages that read no metric."""
    typical = _typical(study.search(optimizer))
    return trial_spec(study, arena, optimizer, stage, typical.lr, seed=0, extra=typical.extra)


def _typical(search: Search) -> Setting:
    """The setting in the middle of the grid of a search."""
    settings = search.first()
    return settings[len(settings) // 2]
