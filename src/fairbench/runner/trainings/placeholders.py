"""Placeholders in the command of a program that no trial sets: they are found before anything is started."""

from pathlib import Path

from fairbench.arenas.program import TASK, ProgramOptions
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import BY_PROGRAM
from fairbench.study.planned_trial import typical_trial
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program_start import start_of


def check_placeholders(suite: Suite, slot: DeviceSlot) -> None:
    """Raise `UsageError` if the command of a program has a placeholder that a trial does not set.

    The options of other optimizers than those that programs make are known only when their classes are loaded, which is
    slow: their first check finds such a placeholder.
    """
    for arena, optimizer in suite.arms:
        plan = suite.optimizers[optimizer]
        if suite.task(arena) != TASK or plan.factory != BY_PROGRAM:
            continue
        study = ResolvedSuite(
            suite=suite,
            device=slot.kind,
            arenas={arena: ResolvedArena(fingerprint="", code={}, starts={})},
            optimizers={optimizer: resolve_optimizer(optimizer, plan, suite.sweep.extra)},
            environment={},
        )
        trial = typical_trial(study, arena, optimizer, "final")
        start_of(trial, Path(), slot, ProgramOptions(**suite.arenas[arena].model))
