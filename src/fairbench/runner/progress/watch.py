"""A live view of a study, read from its output directory; nothing there is locked or changed."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
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
from fairbench.runner.coordination.liveness import Liveness
from fairbench.runner.coordination.status import damaged_statuses
from fairbench.runner.observers import RunningTrial
from fairbench.runner.progress.live import progress_line, time_left, trials_line, trials_table
from fairbench.study.folder import CONFIG
from fairbench.study.plan import Arm, Lookup, ResolvedSuite, arms
from fairbench.study.record import Record
from fairbench.study.snapshot import Snapshot, read_plans

REFRESH_SECONDS = 1.5
"""Seconds between two reads of the directory."""


def arm_statuses(study: ResolvedSuite, lookup: Lookup) -> list[Arm[Record | None]]:
    """Every arm of a study with its records, None for a missing one, and for each seed while no setting is selected."""
    seeds, statuses = seeds_needed(study, lookup), []
    for arm in arms(study, lookup, seeds):
        known, needed = arm.map(lambda specs: [*map(lookup, specs)]), seeds[arm.arena, arm.optimizer]
        statuses.append(known if arm.others or arm.selected or arm.diverged else replace(known, final=[None] * needed))
    return statuses


@dataclass(frozen=True, repr=False)
class StudyStatus:
    """The progress of a study `now`, in seconds since 1970, with its running trials and its live drivers."""

    study: ResolvedSuite
    arms: Sequence[Arm[Record | None]]
    running: list[RunningTrial]
    drivers: list[str]
    now: float
    damaged: list[str]

    def __repr__(self) -> str:
        return f"<StudyStatus: {self.summary}>"

    @property
    def summary(self) -> str:
        """The progress of the study, the time left, and whether a driver runs it, in one line."""
        trials = [record for arm in self.arms for record in arm.trials]
        done = len(trials) - trials.count(None)
        idle = "" if self.drivers or self.complete else "; no driver runs it now"
        return progress_line(done, len(trials), self.left if self.drivers else None) + idle

    @property
    def complete(self) -> bool:
        """Whether every trial that can run has a record, and no driver runs."""
        can_run = [record for x in self.arms for record in (*x.sweep, *x.others, *(x.final if x.selected else ()))]
        return not self.drivers and None not in can_run

    @property
    def left(self) -> float | None:
        """Seconds until the study is complete, at the pace of its records; None without records."""
        seconds: dict[str, float] = defaultdict(float)
        steps: dict[str, int] = defaultdict(int)
        steps_left: dict[str, int] = defaultdict(int)
        for each in self.arms:
            arena = each.arena
            plan = self.study.suite.arenas[arena]
            for trials, planned in ((each.sweep, plan.sweep_steps), ([*each.others, *each.final], plan.steps)):
                steps_left[arena] += planned * trials.count(None)
                seconds[arena] += sum(record.cost.seconds.total for record in trials if record and record.cost)
                steps[arena] += sum(record.result.steps for record in trials if record and record.result)
        return time_left(seconds, steps, steps_left, max(len(self.running), 1))

    def to_json(self) -> dict[str, Any]:
        """The status with the planned and the finished trials of each stage of each arm."""
        arms: list[dict[str, Any]] = []
        for x in self.arms:
            stages = {"sweep": x.sweep, "final": [*x.others, *x.final]}
            counts = {stage: {"planned": len(of), "done": len(of) - of.count(None)} for stage, of in stages.items()}
            arms.append({"arena": x.arena, "optimizer": x.optimizer, **counts})
        trials = [record for arm in self.arms for record in arm.trials]
        return {
            "complete": self.complete,
            "drivers": self.drivers,
            "running": [*map(asdict, self.running)],
            "trials": len(trials),
            "done": len(trials) - trials.count(None),
            "seconds_left": self.left if self.drivers else None,
            "arms": arms,
            "damaged": self.damaged,
        }

    def __rich__(self) -> Group:
        parts: list[RenderableType] = [status_table(self.arms), self.summary]
        if len(self.drivers) > 1:
            parts.append(f"{len(self.drivers)} drivers: {some(self.drivers)}")
        if self.running:
            parts.append(trials_table(self.running, self.now))
        return Group(*parts, *(Text(message, "yellow") for message in self.damaged))


@dataclass(frozen=True)
class Preparation:
    """A study without a plan, whose first drivers run the preflight."""

    drivers: list[str]
    complete: ClassVar = False
    running: ClassVar = ()

    @property
    def summary(self) -> str:
        return f"no plan yet: {', '.join(self.drivers)} {'prepares' if len(self.drivers) == 1 else 'prepare'} the study"

    def to_json(self) -> dict[str, Any]:
        nothing: dict[str, Any] = {"trials": None, "done": None, "seconds_left": None, "arms": [], "damaged": []}
        return {"complete": False, "drivers": self.drivers, "running": [], **nothing}

    def __rich__(self) -> str:
        return self.summary


def status_table(statuses: Iterable[Arm[Record | None]]) -> Table:
    """The progress of each arm."""
    rows, numbers = [], ("sweep", "final", "rate", "diverged", "failed")
    for each in statuses:
        stages = (each.sweep, [*each.others, *each.final])
        sweep, final = (f"{len(x) - x.count(None)}/{len(x)}" for x in stages)
        selected = "diverged" if each.diverged else rate(each.selected.lr) if each.selected else ""
        statuses_of_all = Counter(record.status for record in each.trials if record)
        lost = [str(statuses_of_all[status]) for status in ("diverged", "failed")]
        rows.append([each.arena, each.optimizer, sweep if each.tuned else "untuned", final, selected, *lost])
    return text_table([("arena", False), ("optimizer", False), *((title, True) for title in numbers)], rows)


class Watcher:
    """Reads the status of a study repeatedly; final records are read once."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._directory, self._clock = directory, clock
        self._liveness = Liveness(directory, calendar=clock)
        self._snapshot: Snapshot[Record] | None = None

    def status(self) -> StudyStatus | Preparation:
        """The study as it is now. Raises `UsageError` if there is no study, or something in it is damaged."""
        alive, now = self._liveness.wait_until_known(), self._clock()
        if alive and not (self._directory / CONFIG).exists():
            return Preparation([driver.name for driver in alive])
        study = read_plans(self._directory).study
        # The records are read after the statuses: a trial that has ended in between has its record.
        earlier, metrics = self._snapshot, study.suite.metrics
        snapshot = self._snapshot = earlier.refreshed() if earlier else Snapshot(self._directory, metrics, Record)
        arm_status = arm_statuses(study, snapshot)
        running: dict[str, RunningTrial] = {}
        for name, trial in sorted((x for driver in alive for x in driver.trials.items()), key=lambda x: x[1].updated):
            if not snapshot.has_ended(name):
                running[name] = trial  # if two statuses name a trial, the later one counts
        damaged = [*snapshot.damaged, *damaged_statuses(self._directory)]
        return StudyStatus(study, arm_status, list(running.values()), [driver.name for driver in alive], now, damaged)


def watch_study(directory: Path, console: Console, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show a study until it is complete: a view that updates on a terminal, plain lines elsewhere."""
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
