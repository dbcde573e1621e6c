"""A live view of a study, read from its output directory. Nothing in the directory is locked or changed."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fairbench.analysis.seeds import seeds_needed
from fairbench.common.console import text_table
from fairbench.common.formatting import rate, some
from fairbench.common.terminal import LINE_SECONDS
from fairbench.common.wording import OPTIMIZER
from fairbench.runner.coordination.liveness import Liveness
from fairbench.runner.coordination.status import DriverStatus, damaged_statuses
from fairbench.runner.observers import RunningTrial
from fairbench.runner.progress.live import progress_line, trials_line, trials_table
from fairbench.runner.progress.pace import Pace, counted_steps
from fairbench.study.folder import CONFIG
from fairbench.study.plan import Arm, Lookup, Trials, arms
from fairbench.study.record import Record
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.snapshot import Snapshot, read_plans
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.search import NO_RATE

REFRESH_SECONDS = 1.5
"""Seconds between two reads of the directory."""


def arm_statuses(study: ResolvedSuite, lookup: Lookup) -> list[Arm[Record | None]]:
    """Every arm of a study with its records; None stands for a missing record, also of a trial not known yet."""

    def records(specs: Sequence[TrialSpec]) -> list[Record | None]:
        return [lookup(spec) for spec in specs]

    seeds = seeds_needed(study, lookup)
    statuses = []
    for key in study.suite.arms:
        trials = Trials(study, lookup, *key)
        arm = trials.arm(seeds[key])
        later_sweep, later_final = trials.later(arm, seeds[key])
        known = arm.map(records)
        sweep = [*known.sweep, *[None] * later_sweep]
        final = [*known.final, *[None] * later_final]
        statuses.append(replace(known, sweep=sweep, final=final))
    return statuses


def _can_run(study: ResolvedSuite, lookup: Lookup) -> bool:
    """Whether a known trial has no record. A later trial may wait for one that failed."""
    for arm in arms(study, lookup, seeds_needed(study, lookup)):
        if any(lookup(spec) is None for spec in arm.trials):
            return True
    return False


@dataclass(frozen=True, repr=False)
class StudyStatus:
    """The progress of a study, its running trials, and its live drivers.

    Attributes:
        step_seconds: those of a step in each arena, as a driver has measured them before its first trial.
        start_seconds: those from the start of a program to its first step, as measured then.
        can_run: whether a trial could run now.
        now: the time in seconds since 1970.
    """

    study: ResolvedSuite
    arms: Sequence[Arm[Record | None]]
    running: list[RunningTrial]
    drivers: list[str]
    step_seconds: Mapping[str, float]
    start_seconds: float
    can_run: bool
    now: float
    damaged: list[str]

    def __repr__(self) -> str:
        return f"<StudyStatus: {self.summary}>"

    @property
    def summary(self) -> str:
        """The progress of the study in one line, with the time left, or with a remark if no driver runs it."""
        trials = self._trials
        done = len(trials) - trials.count(None)
        if self.drivers:
            return progress_line(done, len(trials), self.left)
        line = progress_line(done, len(trials), None)
        if self.complete:
            return line
        return f"{line}; no driver runs it now"

    @property
    def _trials(self) -> list[Record | None]:
        """The records of all trials, None for a missing one."""
        return [record for arm in self.arms for record in arm.trials]

    @property
    def complete(self) -> bool:
        """Whether every trial that can run has a record, and no driver runs."""
        return not self.drivers and not self.can_run

    @property
    def left(self) -> float | None:
        """Seconds until the study is complete, at the pace of its records; None if nothing is known of a step."""
        pace = Pace(self.step_seconds, self.start_seconds)
        steps_left: dict[str, int] = defaultdict(int)
        trials_left = 0
        for arm in self.arms:
            arena = arm.arena
            plan = self.study.suite.arenas[arena]
            for trials, planned in ((arm.sweep, plan.sweep_steps), ([*arm.others, *arm.final], plan.steps)):
                steps_left[arena] += planned * trials.count(None)
                trials_left += trials.count(None)
                for record in trials:
                    if record and record.result and record.cost:
                        steps = counted_steps(record, planned)
                        pace.add(arena, steps, record.cost.seconds, whole=record.cost.seconds.total)
        return pace.left(steps_left, trials_left, workers=max(len(self.running), 1))

    def to_json(self) -> dict[str, Any]:
        """The status with the planned and the finished trials of each stage of each arm."""
        arms: list[dict[str, Any]] = []
        for arm in self.arms:
            sweep = _counts(arm.sweep)
            final = _counts([*arm.others, *arm.final])
            noun = self.study.suite.noun
            arms.append({"arena": arm.arena, noun: arm.optimizer, "sweep": sweep, "final": final})
        trials = self._trials
        return {
            "complete": self.complete,
            "drivers": self.drivers,
            "running": [asdict(trial) for trial in self.running],
            "trials": len(trials),
            "done": len(trials) - trials.count(None),
            "seconds_left": self.left if self.drivers else None,
            "arms": arms,
            "damaged": self.damaged,
        }

    def __rich__(self) -> Group:
        parts: list[RenderableType] = [status_table(self.arms, self.study.suite.noun), self.summary]
        if len(self.drivers) > 1:
            parts.append(f"{len(self.drivers)} drivers: {some(self.drivers)}")
        if self.running:
            parts.append(trials_table(self.running, self.now))
        return Group(*parts, *(Text(message, "yellow") for message in self.damaged))


def _counts(trials: Sequence[Record | None]) -> dict[str, int]:
    """The number of planned trials, and the number of trials with a record."""
    return {"planned": len(trials), "done": len(trials) - trials.count(None)}


@dataclass(frozen=True)
class Preparation:
    """A study that has no plan yet, since its first drivers run the preflight."""

    drivers: list[str]
    complete: ClassVar = False
    running: ClassVar = ()

    @property
    def summary(self) -> str:
        """The drivers that prepare the study, in one line."""
        verb = "prepares" if len(self.drivers) == 1 else "prepare"
        return f"no plan yet: {', '.join(self.drivers)} {verb} the study"

    def to_json(self) -> dict[str, Any]:
        """The status with the keys of `StudyStatus`, most of which are empty."""
        nothing: dict[str, Any] = {"trials": None, "done": None, "seconds_left": None, "arms": [], "damaged": []}
        return {"complete": False, "drivers": self.drivers, "running": [], **nothing}

    def __rich__(self) -> str:
        return self.summary


def status_table(statuses: Iterable[Arm[Record | None]], noun: str = OPTIMIZER) -> Table:
    """The progress of each arm. `noun` is the word for what is compared."""
    columns = [("arena", False), (noun, False)]
    columns += [(title, True) for title in ("sweep", "final", "rate", "diverged", "failed")]
    rows = []
    for arm in statuses:
        count = Counter(record.status for record in arm.trials if record)
        row = [arm.arena, arm.optimizer]
        row.append(_sweep(arm))
        row.append(_done([*arm.others, *arm.final]))
        row.append(_selected(arm))
        row += [str(count["diverged"]), str(count["failed"])]
        rows.append(row)
    return text_table(columns, rows)


def _sweep(arm: Arm[Record | None]) -> str:
    """The progress of the sweep of an arm; "none" for a program without a rate."""
    if arm.selected and arm.selected.lr == NO_RATE:
        return "none"
    if not arm.tuned:
        return "untuned"
    return _done(arm.sweep)


def _done(trials: Sequence[Record | None]) -> str:
    """The number of trials with a record, of all: "3/10"."""
    return f"{len(trials) - trials.count(None)}/{len(trials)}"


def _selected(arm: Arm[Record | None]) -> str:
    """The selected learning rate, or "diverged" if every rate diverged; empty while neither is known."""
    if arm.diverged:
        return "diverged"
    if arm.selected and arm.selected.lr != NO_RATE:
        return rate(arm.selected.lr)
    return ""


class Watcher:
    """Reads the status of a study repeatedly; final records are read once."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._clock = clock
        self._liveness = Liveness(directory, calendar=clock)
        self._snapshot: Snapshot[Record] | None = None

    def status(self) -> StudyStatus | Preparation:
        """The study as it is now. Raises `UsageError` if there is no study, or something in it is damaged."""
        alive = self._liveness.wait_until_known()
        now = self._clock()
        drivers = [driver.name for driver in alive]
        if alive and not (self._directory / CONFIG).exists():
            return Preparation(drivers)
        study = read_plans(self._directory).study
        # The records are read after the statuses: a trial that has ended in between has its record.
        if self._snapshot is None:
            self._snapshot = Snapshot(self._directory, study.suite.metrics, Record)
        else:
            self._snapshot = self._snapshot.refreshed()
        step_seconds: Mapping[str, float] = {}
        start_seconds = 0.0
        for driver in alive:
            if driver.step_seconds:
                step_seconds = driver.step_seconds
                start_seconds = driver.start_seconds
        return StudyStatus(
            study,
            arms=arm_statuses(study, self._snapshot),
            running=_running(alive, self._snapshot),
            drivers=drivers,
            step_seconds=step_seconds,
            start_seconds=start_seconds,
            can_run=_can_run(study, self._snapshot),
            now=now,
            damaged=[*self._snapshot.damaged, *damaged_statuses(self._directory)],
        )


def _running(drivers: Sequence[DriverStatus], snapshot: Snapshot[Record]) -> list[RunningTrial]:
    """The running trials of live drivers. If two drivers name the same trial, the later update counts."""
    latest: dict[str, RunningTrial] = {}
    trials = [item for driver in drivers for item in driver.trials.items()]
    for name, trial in sorted(trials, key=lambda item: item[1].updated):
        if not snapshot.has_ended(name):
            latest[name] = trial
    return list(latest.values())


def watch_study(directory: Path, console: Console, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show a study until it is complete. A terminal has a view that is updated, anything else gets plain lines."""
    watcher = Watcher(directory)
    status = watcher.status()
    if console.is_terminal:
        with Live(status, console=console, auto_refresh=False) as live:
            while not status.complete:
                sleep(REFRESH_SECONDS)
                status = watcher.status()
                live.update(status, refresh=True)
        return
    while not status.complete:
        console.print(f"{status.summary} | {trials_line(status.running)}", highlight=False, soft_wrap=True)
        sleep(LINE_SECONDS)
        status = watcher.status()
    console.print(status, highlight=False)
