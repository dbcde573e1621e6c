"""The plan of a suite: trials, time, disk space and the differences that it can detect."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console, Group

from fairbench.analysis.forecast import Forecast, forecast
from fairbench.analysis.noise import std_of_base
from fairbench.analysis.results import collect
from fairbench.common.console import unwrapped
from fairbench.common.processes import cores
from fairbench.report.plan_view import plan_view
from fairbench.report.table import Table, table_of
from fairbench.runner.devices import slots_of_trials
from fairbench.runner.run_study import plan_study
from fairbench.study.folder import CONFIG, NOISE
from fairbench.study.history import History
from fairbench.study.record import Record
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.snapshot import Snapshot, open_study
from fairbench.study.target import Target
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot

WIDTH = 100
"""Columns of a plan as text."""


@dataclass(frozen=True, repr=False)
class Estimate:
    """The trials of a suite, what they need, and what they can detect.

    Attributes:
        arenas: a row for each arena.
        study: the suite with what the preflight measured.
        history: the plans of the directory.
        directory: the directory of the study.
        workers: trials at a time.
        damaged: messages on damaged records.
        device: how the device was chosen, in a line; empty if it was given.

    >>> plan = fb.Suite.load("tiny.toml").plan()
    >>> plan.trials, plan.arenas[0].final_trials
    (10, 4)
    """

    arenas: Table[Forecast]
    study: ResolvedSuite
    history: History
    directory: Path
    workers: int
    damaged: list[str]
    device: str = ""

    @property
    def trials(self) -> int:
        """The number of trials, without those that may be added."""
        return sum(arena.sweep_trials + arena.final_trials for arena in self.arenas)

    @property
    def minutes(self) -> float:
        """Minutes of training and evaluation with these workers, without the trials that may be added."""
        seconds = sum(arena.seconds for arena in self.arenas)
        return seconds / self.workers / 60

    @property
    def frozen(self) -> str:
        """The sha256 of the frozen plan of the directory; empty without one."""
        return self.history.frozen

    def to_json(self) -> dict[str, Any]:
        """The plan without its sentences.

        >>> fb.Suite.load("tiny.toml").plan().to_json()["trials"]
        10
        """
        return {
            "suite": self.study.suite.name,
            "directory": str(self.directory),
            "trials": self.trials,
            "seconds": 60 * self.minutes,
            "workers": self.workers,
            "frozen": self.frozen,
            "arenas": self.arenas.to_dicts(),
            "damaged": self.damaged,
        }

    def __rich__(self) -> Group:
        """The plan in sentences."""
        plan = plan_view(self.study, self.arenas.rows, self.workers, self.history, self.directory)
        notes = []
        if self.device:
            notes.append(unwrapped(self.device, "dim"))
        for message in self.damaged:
            notes.append(unwrapped(message, "yellow"))
        return Group(plan, *notes)

    def __repr__(self) -> str:
        text = io.StringIO()
        console = Console(file=text, width=WIDTH, force_jupyter=False)  # in a notebook it would show the text at once
        console.print(self, highlight=False)
        return text.getvalue().rstrip()


def _with_noise(forecasts: list[Forecast], suite: Suite, directory: Path) -> list[Forecast]:
    """The forecasts with the spread that `fairbench noise` has measured, where no record of the study tells it."""
    if not (directory / NOISE / CONFIG).exists():
        return forecasts
    history, lookup = open_study(directory / NOISE)
    measured = collect(history.study, lookup)
    changed = []
    for each in forecasts:
        std = std_of_base(measured, each.arena)
        if each.spread is None and std is not None:
            spread = std
            if suite.final.test != "welch":
                spread = math.sqrt(2) * std  # of the difference of a pair, whose runs may share nothing
            each = replace(each, spread=spread)
        changed.append(each)
    return changed


def planned(
    target: Target,
    slots: Sequence[DeviceSlot],
    freeze: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Estimate:
    """The plan of a study whose data are prepared. It runs the preflight, but no trial.

    The arguments are those of `plan_study`. The preflight runs at the first slot.
    """
    slots = slots_of_trials(target.suite, slots)
    preflight, history = plan_study(target, slots[0], freeze, say)
    study = preflight.study
    workers = len(slots)
    if slots[0].kind == "cpu":
        workers = min(workers, cores())
    records = Snapshot(target.directory, study.suite.metrics, Record)
    forecasts = _with_noise(forecast(preflight, records), study.suite, target.directory)
    return Estimate(
        arenas=table_of(Forecast, forecasts),
        study=study,
        history=history,
        directory=target.directory,
        workers=workers,
        damaged=records.damaged,
    )
