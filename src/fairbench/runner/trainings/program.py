"""Trials of a user's training program. Before a study, each optimizer trains a few steps, to check the program."""

from fairbench.arenas.program_code import content_hash, matched
from fairbench.runner.trainings.first_check import first_steps
from fairbench.runner.trainings.measured import MeasuredArena
from fairbench.study.resolved_suite import ResolvedArena
from fairbench.suites.program_files import arena_files
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program import program_trial

__all__ = ["first_steps", "measured_arena", "run_trial"]
run_trial = program_trial


def measured_arena(suite: Suite, name: str, slot: DeviceSlot) -> MeasuredArena:
    """Resolve an arena: the hash of the files of its data, and its code.

    A program evaluates as a part of its steps and makes its own batches, so that neither is measured.
    """
    plan = suite.arenas[name]
    files = matched(plan.data.get("files", ()), "data.files")
    resolved = ResolvedArena(content_hash(files), arena_files(suite, name), starts={})
    return MeasuredArena(resolved=resolved, evaluation_seconds=0.0, probed=plan.batch_size)
