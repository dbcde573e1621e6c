"""A live view of a study from any terminal: read from its output directory, where nothing is locked or written."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from fairbench.analysis.results import Results, Run, collect
from fairbench.history import FILE
from fairbench.observers import Running
from fairbench.plan import Record, arms
from fairbench.progress import PLAIN_SECONDS, in_words, summary, time_left, trials_table
from fairbench.snapshot import Snapshot, held_plans
from fairbench.spec import TrialSpec
from fairbench.witness import Witness

SECONDS = 1.5
"""How often the directory is read."""
NAMED = 4
"""How many drivers are named at most; each trial names its own."""


@dataclass(frozen=True)
class Sight:
    """A study as its directory shows it.

    Attributes:
        results: the records so far.
        running: the trials that run, as their drivers said last.
        drivers: who runs the study, host and process of each.
        now: when this was seen, in seconds since 1970.
    """

    results: Results
    running: list[Running]
    drivers: list[str]
    now: float

    @property
    def driven(self) -> bool:
        """Whether somebody runs the study."""
        return bool(self.drivers)

    @property
    def summary(self) -> str:
        """How far the study is, how long it will take, and whether anybody runs it, in a line."""
        runs = self.results.select(lambda run: True)
        done = sum(run.record is not None for run in runs)
        nobody = "" if self.driven or self.complete else "; nobody runs it now"
        return summary(done, len(runs), self.left if self.driven else None) + nobody

    @property
    def complete(self) -> bool:
        """Whether there is nothing to wait for: every trial that can run has a record, and nobody runs any."""
        missing = self.results.select(lambda run: run.record is None and run.lr is not None)
        return not missing and not self.driven

    @property
    def left(self) -> float | None:
        """Seconds that the study will still take at the pace of its records; None while nothing is known."""
        seconds: dict[str, float] = defaultdict(float)
        steps: dict[str, int] = defaultdict(int)
        steps_left: dict[str, int] = defaultdict(int)
        for run in self.results.select(lambda run: True):
            if run.record is None:
                steps_left[run.arena] += self._steps(run)
            elif run.result is not None:
                seconds[run.arena] += run.record["cost"]["seconds"]["total"]
                steps[run.arena] += run.result["steps"]
        return time_left(seconds, steps, steps_left, max(len(self.running), 1))

    def _steps(self, run: Run) -> int:
        plan = self.results.study.suite.arenas[run.arena]
        return plan.sweep_steps if run.stage == "sweep" else plan.steps

    def view(self) -> Group:
        """All of it, for a terminal."""
        parts: list[RenderableType] = [status_table(self.results), self.summary]
        if len(self.drivers) > 1:
            more = f" and {len(self.drivers) - NAMED} more" if len(self.drivers) > NAMED else ""
            parts.append(f"{len(self.drivers)} drivers: {', '.join(self.drivers[:NAMED])}{more}")
        if self.running:
            parts.append(trials_table(self.running, self.now))
        return Group(*parts)


@dataclass(frozen=True)
class Preparation:
    """A study that has no plan yet, since its first drivers prepare it.

    Attributes:
        drivers: who does, host and process of each.
    """

    drivers: list[str]
    complete: ClassVar = False
    running: ClassVar = ()

    @property
    def summary(self) -> str:
        """What is known of it, in a line."""
        return f"no plan yet: {', '.join(self.drivers)} {'prepares' if len(self.drivers) == 1 else 'prepare'} the study"

    def view(self) -> str:
        """All of it, for a terminal."""
        return self.summary


def status_table(results: Results) -> Table:
    """How far each arm of a study is.

    Args:
        results: the study's results so far.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("arena", "optimizer", "sweep", "rate", "final", "diverged", "failed"):
        table.add_column(column, justify="left" if column in ("arena", "optimizer") else "right", no_wrap=True)
    for arm in results.arms:
        sweep, final = (Counter(run.status for run in runs) for runs in (arm.sweep, arm.final))
        done = [of_stage.total() - of_stage["missing"] for of_stage in (sweep, final)]
        rate = "diverged" if arm.diverged else "" if arm.lr is None else f"{arm.lr:g}"
        swept = f"{done[0]}/{len(arm.sweep)}" if arm.tuned else "untuned"
        lost = [sweep[status] + final[status] for status in ("diverged", "failed")]
        of_each = swept, rate, f"{done[1]}/{len(arm.final)}", *map(str, lost)
        table.add_row(arm.arena, arm.optimizer, *of_each)
    return table


class Watcher:
    """Looks at a study again and again; records that are there for good are read once.

    Args:
        directory: the study's output directory.
        clock: seconds since 1970; tests hand in their own.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._directory, self._clock = directory, clock
        self._witness = Witness(directory, calendar=clock)
        self._kept: dict[str, Record] = {}

    def look(self) -> Sight | Preparation:
        """The study as it is now.

        Raises:
            UsageError: there is no study, or something in it is damaged.
        """
        said, now = self._witness.listen(), self._clock()
        if said and not (self._directory / FILE).exists():
            return Preparation([word.who for word in said])
        study = held_plans(self._directory).study
        read = Snapshot(self._directory)  # after what runs: what has ended meanwhile has a record

        def lookup(spec: TrialSpec) -> Record | None:
            if (kept := self._kept.get(spec.id)) is not None:
                return kept
            record = read.brief(spec)
            if record is not None and record["status"] != "failed":  # which a later run tries again
                self._kept[spec.id] = record
            return record

        results = collect(study, arms(study, lookup), lookup)
        read.remember()
        told = sorted((each for word in said for each in word.trials.items()), key=lambda each: each[1].heard)
        running = {name: trial for name, trial in told if name not in self._kept}  # of two words the later one counts
        return Sight(results, list(running.values()), [word.who for word in said], now)


def watch(directory: Path, console: Console, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show a study until it is complete: a view that updates on a terminal, plain lines elsewhere.

    Args:
        directory: the study's output directory.
        console: where to show it.
        sleep: waits so many seconds; tests hand in their own.

    Raises:
        UsageError: there is no study, or something in it is damaged.
    """
    watcher = Watcher(directory)
    sight = watcher.look()
    if console.is_terminal:
        with Live(sight.view(), console=console, auto_refresh=False) as live:
            while not sight.complete:
                sleep(SECONDS)
                sight = watcher.look()
                live.update(sight.view(), refresh=True)
        return
    while not sight.complete:
        console.print(f"{sight.summary} | {in_words(sight.running)}", highlight=False, soft_wrap=True)
        sleep(PLAIN_SECONDS)
        sight = watcher.look()
    console.print(sight.view(), highlight=False)
