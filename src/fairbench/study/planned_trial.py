"""The spec of a single trial of a study, and its timing trials."""

from typing import Any

from fairbench.optimizers.spec import WARMUP
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.trial_spec import ArenaSpec, TrainingSpec, TrialSpec
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.schema import Suite
from fairbench.suites.search import NO_RATE, OtherValues

TIMING_TRIALS = 5
"""Timing trials of each optimizer in each arena."""
TIMED_STEPS = 60
"""Training steps of a timing trial."""


def trial_spec(
    study: ResolvedSuite, arena: str, optimizer: str, stage: str, lr: float, seed: int, extra: OtherValues = ()
) -> TrialSpec:
    """The spec of one trial of a study. Hyperparameters that are not in `extra` have the optimizer's values."""
    suite = study.suite
    plan = suite.arenas[arena]
    steps = _steps(plan, stage)
    evaluations = _evaluations(suite, stage)
    searched: dict[str, Any] = {}
    if lr != NO_RATE:
        searched["lr"] = lr
    searched.update(extra)
    warmup_steps = searched.pop(WARMUP, suite.training.warmup_steps)
    schedule, min_lr = suite.schedule(arena, optimizer)
    training = {
        **vars(suite.training),
        "clip_norm": suite.clip_norm(optimizer),
        WARMUP: warmup_steps,
        "schedule": schedule,
        "min_lr": min_lr,
        "steps": steps,
        "evaluations": evaluations,
        "selection": suite.selection,
        "decides": suite.decides,
        "shock": plan.shock,
        "device": study.device,
    }
    resolved = study.arenas[arena]
    task = ArenaSpec(
        name=arena,
        task=suite.task(arena),
        data=plan.data,
        model=plan.model,
        batch_size=plan.batch_size,
        fingerprint=resolved.fingerprint,
        code=resolved.code,
    )
    optimizer_spec = study.optimizers[optimizer].spec(arena, searched, steps)
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
    settings = study.search(optimizer).first()
    typical = settings[len(settings) // 2]
    return trial_spec(study, arena, optimizer, stage, typical.lr, seed=0, extra=typical.extra)
