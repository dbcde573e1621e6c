"""A preview of an optimizer: a few short trials, and no result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Group
from rich.text import Text

from fairbench.api.optimizer import OptimizerLike, user_optimizer
from fairbench.api.suite import Suite, as_suite
from fairbench.common.console import text_table, unwrapped
from fairbench.common.formatting import number
from fairbench.common.terminal import say
from fairbench.data.dataset_config import check_prepared, configs_of
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.report.fields import names_of
from fairbench.report.table import Table
from fairbench.runner.devices import device_slots
from fairbench.runner.executors.executor import PausedTrial
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.preflight import run_preflight
from fairbench.runner.preload import preload
from fairbench.study.planned_trial import trial_spec
from fairbench.study.preflight_result import time_limits
from fairbench.study.record import Record
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites import schema
from fairbench.suites.loader import changed
from fairbench.suites.overrides import Overrides
from fairbench.suites.search import search_for
from fairbench.suites.stages import Sweep
from fairbench.training.device_slot import DeviceSlot


@dataclass(frozen=True)
class PreviewRow:
    """A trial of a preview.

    Attributes:
        value: the primary metric on the validation split; None unless the trial finished.
        status: "finished", "diverged" or "failed".
        error: why it failed; otherwise empty.
    """

    optimizer: str
    lr: float
    metric: str
    value: float | None
    status: str
    error: str


@dataclass(frozen=True, repr=False, kw_only=True)
class Previewed(Table[PreviewRow]):
    """The trials of a preview; `ok` if none failed.

    Attributes:
        suite: the suite, with one arena.
        seconds: the seconds of a training step of each optimizer, the median over its rates; None if no trial finished.
        command: the command of the study that gives a result.
    """

    suite: schema.Suite
    seconds: Mapping[str, float | None]
    command: str = ""

    @property
    def ok(self) -> bool:
        """Whether no trial failed."""
        return not any(row.status == "failed" for row in self.rows)

    def __rich__(self) -> Group:
        """A row for each learning rate, a column for each optimizer, their step times, and the command of a study."""
        suite = self.suite
        (arena,) = suite.arenas
        plan = suite.arenas[arena]
        score = f"{plan.metric} ({suite.better(arena)}) on the {suite.selection_name} split"
        length = f"after {plan.sweep_steps} steps, one seed"
        columns = [("lr", False)]
        for optimizer in suite.optimizers:
            columns.append((optimizer, True))
        heading = Text.assemble(("A preview, not a result: ", "bold"), f"{arena}, {score} {length}")
        table = text_table(columns, [*self._lines(), self._step_times()])
        failures = [Text(f"failed: {row.error}", "bold red") for row in self.rows if row.status == "failed"]
        advice = unwrapped(f"for a result, with a search and new seeds:\n    {self.command}")
        return Group(heading, table, *failures, *self._at_edges(), advice)

    def _lines(self) -> list[list[str | Text]]:
        """A line for each learning rate, with the value of each optimizer. The best value of an optimizer is bold."""
        texts = {}  # by learning rate and optimizer
        for row in self.rows:
            if row.value is None:
                texts[row.lr, row.optimizer] = Text(row.status, "red")
            else:
                style = "bold" if row.value == self._best(row.optimizer) else ""
                texts[row.lr, row.optimizer] = Text(number(row.value), style)
        lines = []
        for lr in sorted({row.lr for row in self.rows}):
            line: list[str | Text] = [f"{lr:g}"]
            for optimizer in self.suite.optimizers:
                line.append(texts.get((lr, optimizer), Text("")))
            lines.append(line)
        return lines

    def _at_edges(self) -> list[Text]:
        """A line if the lowest learning rate of optimizers is the best, and one if the highest is."""
        best_at: dict[str, list[str]] = {"lowest": [], "highest": []}
        for optimizer in self.suite.optimizers:
            values = {row.lr: row.value for row in self.rows if row.optimizer == optimizer}
            finished = [value for value in values.values() if value is not None]
            if len(values) < 2 or not finished:
                continue
            best = self._best(optimizer)
            for edge, lr in (("lowest", min(values)), ("highest", max(values))):
                if values[lr] == best:
                    best_at[edge].append(optimizer)
        lines = []
        for edge, optimizers in best_at.items():
            if optimizers:
                names = ", ".join(optimizers)
                text = f"the {edge} learning rate is the best of {names}; --lr tries others"
                lines.append(Text(text))
        return lines

    def _best(self, optimizer: str) -> float:
        """The best value of an optimizer, at least one of whose trials has finished."""
        (arena,) = self.suite.arenas
        values = [row.value for row in self.rows if row.optimizer == optimizer and row.value is not None]
        if self.suite.direction(arena) == "max":
            return max(values)
        return min(values)

    def _step_times(self) -> list[str | Text]:
        """The last line: the time of a step of each optimizer, as a multiple of that of the first optimizer."""
        first = next(iter(self.suite.optimizers))
        first_seconds = self.seconds[first]
        line: list[str | Text] = [Text("step time", "dim")]
        for seconds in self.seconds.values():
            text = ""
            if seconds and first_seconds:
                text = f"about {number(seconds / first_seconds, 2)}x"
            line.append(Text(text, "dim"))
        return line


def rates(optimizer: ResolvedOptimizer, sweep: Sweep, chosen: Sequence[float]) -> list[float]:
    """The learning rates of an optimizer in a preview: its fixed rate, the chosen rates, or three of its grid."""
    if chosen and optimizer.lr is None:
        return list(chosen)
    search = search_for(sweep, optimizer.lr_scale, optimizer.lr)
    grid = [setting.lr for setting in search.first()]
    middle = grid[(len(grid) - 1) // 2]
    return sorted({grid[0], middle, grid[-1]})


def _say_nothing(text: str) -> None:
    """Ignore a message."""


def run_preview(
    suite: schema.Suite,
    chosen: Sequence[float],
    slots: Sequence[DeviceSlot],
    say: Callable[[str], None] = _say_nothing,
) -> list[tuple[TrialSpec, Record]]:
    """Train every optimizer of a suite with one arena and one seed, at the chosen rates or at three of its grid.

    Returns the spec and the record of each trial, those of an optimizer next to each other.
    """
    check_prepared(configs_of(suite.data_tables), Path(slots[0].data_root))
    seed = suite.sweep.seeds[0]
    sweep = replace(suite.sweep, seeds=[seed])
    final = replace(suite.final, seeds=[seed + 1])  # a suite needs one; no final trial runs
    with ProcessExecutor(slots, preload=preload(suite)) as executor:
        preflight = run_preflight(replace(suite, sweep=sweep, final=final), slots[0], executor.call, say)
        specs = _specs(preflight.study, chosen, seed)
        (arena,) = suite.arenas
        limit = time_limits(preflight, suite.trial_timeout)[arena]
        records = _records(executor, specs, limit)
    optimizers = list(suite.optimizers)
    specs.sort(key=lambda spec: optimizers.index(spec.optimizer.name))
    return [(spec, records[spec.id]) for spec in specs]


def _specs(study: ResolvedSuite, chosen: Sequence[float], seed: int) -> list[TrialSpec]:
    """The trials of a preview: every optimizer at each of its rates.

    The optimizers take turns, so that their step times are of the same minutes.
    """
    (arena,) = study.suite.arenas
    numbered = []
    for name, optimizer in study.optimizers.items():
        for turn, lr in enumerate(rates(optimizer, study.suite.sweep, chosen)):
            spec = trial_spec(study, arena, name, stage="sweep", lr=lr, seed=seed)
            numbered.append((turn, spec))
    numbered.sort(key=itemgetter(0))
    return [spec for _, spec in numbered]


def _records(executor: ProcessExecutor, specs: Sequence[TrialSpec], limit: float) -> dict[str, Record]:
    """Run trials, each for at most `limit` seconds. Returns the record of each trial by its id."""
    by_id = {spec.id: spec for spec in specs}
    waiting = list(reversed(specs))
    records: dict[str, Record] = {}
    while len(records) < len(by_id):
        while waiting and executor.has_free_slot():
            executor.submit(waiting.pop(), limit)
        for ended in executor.collect():
            if isinstance(ended, PausedTrial):  # something else stopped it, such as a batch system
                waiting.append(by_id[ended.id])
            else:
                records[ended.id] = ended
    return records


def preview(
    optimizer: OptimizerLike,
    baselines: Sequence[str] = ("AdamW",),
    suite: Suite | str = "mini",
    arena: str | None = None,
    lr: Sequence[float] = (),
    workers: int | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Previewed:
    """Preview an optimizer: a few short trials in one arena, and no result.

    Args:
        optimizer: as for `fb.check`.
        baselines: the optimizers that it is shown with.
        suite: has the arena and the settings.
        arena: the arena; None for the first one of the suite.
        lr: learning rates; empty takes three of the suite's grid.
        workers: trials at a time, see `fb.run`.
        settings: values by dotted keys, see `fb.Suite.replace`.
        progress: whether to print what is measured, on standard error.

    Returns:
        A row for each trial.

    Raises:
        UsageError: an optimizer or data are missing.

    >>> rows = fb.preview("own_optimizers.py:Signs", suite="tiny.toml", lr=[0.001], workers=2)
    >>> [(row.optimizer, row.status) for row in rows]
    [('AdamW', 'finished'), ('Signs', 'finished')]
    """
    chosen = as_suite(suite)
    own = user_optimizer(optimizer, known=chosen.content.optimizers)
    compared = [name for name in baselines if name != own.name]
    compared.append(own.name)
    overrides = Overrides(
        arenas=[arena] if arena else None,
        optimizers=compared,
        settings=settings or {},
        preview=True,
    )
    with TemporaryDirectory() as folder:
        content = chosen.placed(Path(folder))
        optimizers = {**content.optimizers, own.name: own.placed(Path(folder))}
        previewed = changed(replace(content, optimizers=optimizers), overrides)
        tell: Callable[[str], None] = _say_nothing
        if progress:
            tell = partial(say, is_error=True)
        trials = run_preview(previewed, lr, device_slots("cpu", workers, "data"), tell)
    (plan,) = previewed.arenas.values()
    return Previewed(
        rows=[_row(spec, record, plan.metric) for spec, record in trials],
        columns=names_of(PreviewRow),
        suite=previewed,
        seconds={name: _seconds_of_step(name, trials) for name in previewed.optimizers},
    )


def _row(spec: TrialSpec, record: Record, metric: str) -> PreviewRow:
    """The row of a trial, with the value of the primary metric."""
    value = None
    if record.status == "finished":
        value = record.final("val")[metric]
    return PreviewRow(
        optimizer=spec.optimizer.name,
        lr=spec.lr,
        metric=metric,
        value=value,
        status=record.status,
        error=str(record.error or ""),
    )


def _seconds_of_step(optimizer: str, trials: Sequence[tuple[TrialSpec, Record]]) -> float | None:
    """The seconds of a training step of an optimizer, the median over its finished trials; None without one."""
    times = []
    for spec, record in trials:
        if spec.optimizer.name == optimizer and record.status == "finished" and record.cost:
            seconds = record.cost.seconds
            times.append((seconds.forward + seconds.backward + seconds.step) / record.cost.steps)
    if not times:
        return None
    return median(times)
