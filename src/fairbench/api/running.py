"""Runs and checks for Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Group

from fairbench.api.optimizer import OptimizerLike, user_optimizer
from fairbench.api.study import Study
from fairbench.api.suite import Suite, as_suite
from fairbench.common.console import Terminal
from fairbench.contract.run_checks import check_all
from fairbench.data.dataset_config import check_prepared, configs_of
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.report.render.terminal import checks_view
from fairbench.report.sections.audit import CHECKS_CAPTION, flag_table
from fairbench.report.table import Audit
from fairbench.runner.devices import RunOptions, device_kind, device_slots
from fairbench.runner.executors.local import call_each
from fairbench.runner.progress.live import LiveProgress
from fairbench.runner.run_study import run_study
from fairbench.study.target import target_in
from fairbench.suites.settings import change


def run(
    suite: Suite | str,
    directory: str | Path,
    workers: int | None = None,
    device: str = "auto",
    progress: bool = True,
    *,
    data_root: str | Path = "data",
    timing: bool = False,
) -> Study:
    """Run the trials of a suite that have no record yet; a run that was interrupted resumes.

    Args:
        suite: the suite, or its name or file.
        directory: the output directory of the study.
        workers: trials at a time; None for one on each core of the CPU, or one on a GPU.
        device: "cpu", "cuda", "cuda:1" or the like; "auto" is the device of the study so far, and for a new study
            "cuda" if torch finds a GPU, otherwise "cpu".
        progress: whether to show the progress: a table on a terminal, one line that is replaced in a notebook.
        data_root: folder of the prepared data.
        timing: whether to time the optimizers' steps after all other trials.

    Returns:
        The study, complete unless trials failed.

    Raises:
        UsageError: the directory holds another suite, or something is missing; the message says what to do.

    >>> fb.run(fb.Suite.load("tiny.toml"), "results/mine", workers=2, progress=False)
    <Study results/mine of suite tiny: 10 of 10 trials>
    """
    chosen = as_suite(suite)
    folder = Path(directory)
    target = target_in(folder, chosen.content)
    kind = device_kind(device, target.history)
    slots = device_slots(kind, workers, str(data_root))
    check_prepared(configs_of(chosen.content.data_tables), Path(data_root))
    loadable = chosen.placed(folder)
    live_progress = LiveProgress(Terminal(quiet=not progress))
    run_study(replace(target, suite=loadable), RunOptions(slots, timing=timing), [live_progress])
    return Study(folder)


def check(
    optimizer: OptimizerLike, suite: Suite | str | None = None, settings: Mapping[str, Any] | None = None
) -> Audit:
    """Check whether an optimizer keeps the contract that a training relies on.

    Args:
        optimizer: a name, `module:Class`, `path/to/file.py:Class`, or a class, which may be defined in a notebook.
        suite: has the options of the optimizer, if it is the name of a table in it.
        settings: options by dotted keys, such as {"AdamW.weight_decay": 0.1}.

    Returns:
        The result of every check; `ok` if none failed.

    Raises:
        UsageError: there is no such optimizer, or trials cannot load it.

    >>> fb.check("AdamW").ok
    True
    """
    known = None
    if suite:
        known = as_suite(suite).content.optimizers
    own = user_optimizer(optimizer, known=known)
    with TemporaryDirectory() as folder:
        plan = own.placed(Path(folder))
        tables = {"optimizers": {own.name: asdict(plan)}}
        for key, value in (settings or {}).items():
            change(tables, key, value)
        changed_plan = OptimizerPlan(**tables["optimizers"][own.name])
        flags = check_all(own.name, changed_plan, call_each)
    table = flag_table(flags, CHECKS_CAPTION)
    return Checks(table.rows, table.columns, table.report_view)


class Checks(Audit):
    """The result of every check of an optimizer."""

    def __rich__(self) -> Group:
        """Every result with its advice, and the number of each severity."""
        return checks_view(self.rows)
