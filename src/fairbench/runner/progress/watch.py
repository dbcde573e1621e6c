"""A live view of a study from any terminal: read from its output directory, where nothing is locked or written."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from fairbench.runner.coordination.liveness import Witness
from fairbench.runner.observers import Running
from fairbench.runner.progress.live import PLAIN_SECONDS, in_words, summary, time_left, trials_table
from fairbench.study.history import FILE
from fairbench.study.plan import Arm, Study, arms
from fairbench.study.record_index import Told
from fairbench.study.records import Record
from fairbench.study.snapshot import Snapshot, held_plans
from fairbench.study.trial_spec import TrialSpec

SECONDS = 1.5
"""How often the directory is read."""
NAMED = 4
"""How many drivers are named at most; each trial names its own."""


@dataclass(frozen=True)
class ArmSight:
    """One optimizer in one arena, as far as it is.

    Attributes:
        arm: the arm.
        tuned: whether a learning rate is searched.
        sweep: what is told of each trial of stage 1; None of one that has no record.
        final: the same of stage 2; None for each planned seed while nothing is selected.
    """

    arm: Arm
    tuned: bool
    sweep: Sequence[Told | None]
    final: Sequence[Told | None]

    @property
    def awaited(self) -> Sequence[Told | None]:
        """What is told of the trials that can run or have run."""
        return self.sweep if self.arm.setting is None else [*self.sweep, *self.final]


def arm_sights(study: Study, told: Callable[[str], Told | None]) -> list[ArmSight]:
    """Every arm of a study, as far as it is.

    Args:
        study: the study.
        told: what the index tells of the record of the trial of an id; None when there is none.
    """

    def brief(spec: TrialSpec) -> Record | None:
        known = told(spec.id)
        return known and known.brief(spec.id)

    seeds = len(study.suite.final.seeds)
    found = []
    for arm in arms(study, brief):
        final = [None] * seeds if arm.setting is None and not arm.diverged else [*map(told, arm.final.ids)]
        found.append(ArmSight(arm, study.tuned(arm.optimizer), [*map(told, arm.sweep.ids)], final))
    return found


@dataclass(frozen=True)
class Sight:
    """A study as its directory shows it.

    Attributes:
        study: the study.
        arms: its arms, in the order of the suite.
        running: the trials that run, as their drivers said last.
        drivers: who runs the study, host and process of each.
        now: when this was seen, in seconds since 1970.
    """

    study: Study
    arms: Sequence[ArmSight]
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
        trials = [told for arm in self.arms for told in (*arm.sweep, *arm.final)]
        done = len(trials) - trials.count(None)
        nobody = "" if self.driven or self.complete else "; nobody runs it now"
        return summary(done, len(trials), self.left if self.driven else None) + nobody

    @property
    def complete(self) -> bool:
        """Whether there is nothing to wait for: every trial that can run has a record, and nobody runs any."""
        return not self.driven and not any(None in arm.awaited for arm in self.arms)

    @property
    def left(self) -> float | None:
        """Seconds that the study will still take at the pace of its records; None while nothing is known."""
        seconds: dict[str, float] = defaultdict(float)
        steps: dict[str, int] = defaultdict(int)
        steps_left: dict[str, int] = defaultdict(int)
        for each in self.arms:
            arena = each.arm.arena
            plan = self.study.suite.arenas[arena]
            for trials, planned in ((each.sweep, plan.sweep_steps), (each.final, plan.steps)):
                steps_left[arena] += planned * trials.count(None)
                seconds[arena] += sum(told.seconds or 0.0 for told in trials if told)
                steps[arena] += sum(told.steps or 0 for told in trials if told)
        return time_left(seconds, steps, steps_left, max(len(self.running), 1))

    def view(self) -> Group:
        """All of it, for a terminal."""
        parts: list[RenderableType] = [status_table(self.arms), self.summary]
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


def status_table(sights: Iterable[ArmSight]) -> Table:
    """How far each arm of a study is.

    Args:
        sights: the arms.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("arena", "optimizer", "sweep", "rate", "final", "diverged", "failed"):
        table.add_column(column, justify="left" if column in ("arena", "optimizer") else "right", no_wrap=True)
    for each in sights:
        arm = each.arm
        sweep, final = (Counter(told.status if told else "missing" for told in x) for x in (each.sweep, each.final))
        done = [of_stage.total() - of_stage["missing"] for of_stage in (sweep, final)]
        rate = "diverged" if arm.diverged else "" if arm.lr is None else f"{arm.lr:g}"
        swept = f"{done[0]}/{len(each.sweep)}" if each.tuned else "untuned"
        lost = [sweep[status] + final[status] for status in ("diverged", "failed")]
        table.add_row(arm.arena, arm.optimizer, swept, rate, f"{done[1]}/{len(each.final)}", *map(str, lost))
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
        self._read: Snapshot | None = None

    def look(self) -> Sight | Preparation:
        """The study as it is now.

        Raises:
            UsageError: there is no study, or something in it is damaged.
        """
        said, now = self._witness.listen(), self._clock()
        if said and not (self._directory / FILE).exists():
            return Preparation([word.who for word in said])
        study = held_plans(self._directory).study
        # after what runs: what has ended meanwhile has a record
        read = self._read = self._read.renewed() if self._read else Snapshot(self._directory)
        sights = arm_sights(study, read.told)
        read.remember()
        heard = sorted((each for word in said for each in word.trials.items()), key=lambda each: each[1].heard)
        running = {name: trial for name, trial in heard if _runs(read.told(name))}  # of two words the later one counts
        return Sight(study, sights, list(running.values()), [word.who for word in said], now)


def _runs(told: Told | None) -> bool:
    """Whether a trial of which a driver says so runs: it has no record yet, or failed before."""
    return told is None or told.status == "failed"


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
