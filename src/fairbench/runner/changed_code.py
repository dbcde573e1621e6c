"""The files of a training program that have changed since its study ran last, so that its trials run again."""

from collections.abc import Mapping
from pathlib import Path

from fairbench.arenas.program import TASK
from fairbench.common.formatting import plural, some
from fairbench.study.history import History
from fairbench.study.plan import arms
from fairbench.study.record import Record
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.snapshot import Snapshot
from fairbench.suites.program_files import arena_files, variant_files
from fairbench.suites.schema import Suite


def changed_code(history: History, suite: Suite, directory: Path) -> str:
    """A message on finished trials that no longer count, since a file of their program has changed; empty without any.

    Args:
        history: the plans of the study so far.
        suite: the suite that runs now; its variants have the commits of their revisions.
        directory: the directory of the study.
    """
    if not history.plans or not suite.trains_programs:
        return ""
    study = history.study
    files_of = {arm: _changed_files(study, suite, *arm) for arm in study.suite.arms}
    if not any(files_of.values()):
        return ""
    lookup = Snapshot(directory, study.suite.metrics, Record)
    files: set[str] = set()
    finished = 0
    for arm in arms(study, lookup):
        differing = files_of[arm.arena, arm.optimizer]
        if not differing:
            continue
        files |= differing
        for spec in (*arm.sweep, *arm.final):
            record = lookup(spec)
            if record is not None and record.status != "failed":
                finished += 1
    if not finished:
        return ""
    trials = plural(finished, "finished trial")
    remedy = "they are kept: restore the file, and they count again; for both, give another --output-dir"
    return f"{some(sorted(files))} changed since this study ran; not counted are {trials} of the former code ({remedy})"


def _changed_files(study: ResolvedSuite, suite: Suite, arena: str, optimizer: str) -> set[str]:
    """The files that differ now from those with which an arm of a study has run."""
    plan = suite.arenas.get(arena)
    declared = suite.optimizers.get(optimizer)
    if plan is None or declared is None or plan.task != TASK:
        return set()  # the arm is no part of the suite any more
    if declared.variant is None:
        return _differing(study.arenas[arena].code, arena_files(suite, arena))
    return _differing(study.optimizers[optimizer].code, variant_files(suite, declared.variant))


def _differing(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """The files that are new, were changed, or are gone. A commit has none: it does not change."""
    return {file for file in {*before, *now} if before.get(file) != now.get(file)}
