"""A preview of an optimizer: a few short trials, and no result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Group
from rich.text import Text

from fairbench.api.optimizer import Given, user_optimizer
from fairbench.api.suite import Suite, as_suite
from fairbench.common.console import text_table, whole
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
from fairbench.runner.run_study import preload
from fairbench.study.plan import trial_spec
from fairbench.study.preflight_result import time_limits
from fairbench.study.record import Record
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
        seconds: of each optimizer, those of a training step, the median over its rates; None if no trial finished.
        command: of the study that gives a result.
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
        ((arena, plan),) = suite.arenas.items()
        score = f"{plan.metric} ({suite.better(arena)}) on the {suite.selection_name} split"
        score += f" after {plan.sweep_steps} steps, one seed"
        cells = {(row.lr, row.optimizer): Text(row.status, "red") for row in self.rows}
        for name in suite.optimizers:
            values = {row.lr: row.value for row in self.rows if row.optimizer == name and row.value is not None}
            best = max((suite.sign(arena) * value for value in values.values()), default=0.0)
            for lr, value in values.items():
                cells[lr, name] = Text(number(value), "bold" if suite.sign(arena) * value == best else "")
        rates = sorted({row.lr for row in self.rows})
        shown = [[f"{lr:g}", *(cells.get((lr, name), Text("")) for name in suite.optimizers)] for lr in rates]
        one = self.seconds[next(iter(suite.optimizers))]
        ratios = [f"about {number(x / one, 2)}x" if x and one else "" for x in self.seconds.values()]
        shown.append([Text(text, "dim") for text in ("step time", *ratios)])
        return Group(
            Text.assemble(("A preview, not a result: ", "bold"), f"{arena}, {score}"),
            text_table([("lr", False), *((name, True) for name in suite.optimizers)], shown),
            *(Text(f"failed: {row.error}", "bold red") for row in self.rows if row.status == "failed"),
            whole(f"for a result, with a search and new seeds:\n    {self.command}"),
        )


def rates(optimizer: ResolvedOptimizer, sweep: Sweep, chosen: Sequence[float]) -> list[float]:
    """The learning rates of an optimizer in a preview: its fixed one, the chosen ones, or three of its grid."""
    if chosen and optimizer.lr is None:
        return list(chosen)
    known = [setting.lr for setting in search_for(sweep, optimizer.lr_scale, optimizer.lr).first()]
    return sorted({known[0], known[(len(known) - 1) // 2], known[-1]})


def run_preview(
    suite: schema.Suite,
    chosen: Sequence[float],
    slots: Sequence[DeviceSlot],
    say: Callable[[str], None] = lambda text: None,
) -> list[tuple[TrialSpec, Record]]:
    """Train every optimizer of a suite with one arena at the chosen rates, or three of its own, with one seed."""
    (arena,), seed = suite.arenas, suite.sweep.seeds[0]
    check_prepared(configs_of(suite.data_tables), Path(slots[0].data_root))
    measured = replace(suite, sweep=replace(suite.sweep, seeds=[seed]), final=replace(suite.final, seeds=[seed + 1]))
    with ProcessExecutor(slots, preload=preload(suite)) as executor:
        preflight = run_preflight(measured, slots[0], executor.call, say)
        limit = time_limits(preflight, suite.trial_timeout)[arena]
        planned = [
            trial_spec(preflight.study, arena, name, "sweep", lr, seed)
            for name, optimizer in preflight.study.optimizers.items()
            for lr in rates(optimizer, suite.sweep, chosen)
        ]
        specs, records = {spec.id: spec for spec in planned}, dict[str, Record]()
        waiting = list(reversed(planned))
        while len(records) < len(specs):
            while waiting and executor.has_free_slot():
                executor.submit(waiting.pop(), limit)
            for ended in executor.collect():
                if isinstance(ended, PausedTrial):  # something else stopped it, such as a batch system
                    waiting.append(specs[ended.id])
                else:
                    records[ended.id] = ended
    return [(spec, records[spec.id]) for spec in planned]


def preview(
    optimizer: Given,
    against: Sequence[str] = ("AdamW",),
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
        against: the optimizers that it is shown with.
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
    with TemporaryDirectory() as folder:
        content = chosen.placed(Path(folder))
        content = replace(content, optimizers={**content.optimizers, own.name: own.placed(Path(folder))})
        compared = [*(name for name in against if name != own.name), own.name]
        arenas = [arena] if arena else None
        made = changed(content, Overrides(arenas=arenas, optimizers=compared, settings=settings or {}, preview=True))
        tell = partial(say, is_error=True) if progress else lambda text: None
        trials = run_preview(made, lr, device_slots("cpu", workers, "data"), tell)
    rows = []
    for spec, record in trials:
        metric, error = made.arenas[spec.arena.name].metric, str(record.error or "")
        value = record.final("val")[metric] if record.status == "finished" else None
        rows.append(PreviewRow(spec.optimizer.name, spec.lr, metric, value, record.status, error))
    seconds = dict[str, float | None]()
    for name in made.optimizers:
        costs = [x.cost for spec, x in trials if spec.optimizer.name == name and x.status == "finished" and x.cost]
        steps = [(x.seconds.forward + x.seconds.backward + x.seconds.step) / x.steps for x in costs]
        seconds[name] = median(steps) if steps else None
    return Previewed(rows, names_of(PreviewRow), suite=made, seconds=seconds)
