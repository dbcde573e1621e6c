"""A preview of an optimizer: a few short trials, and no result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from fairbench.api.optimizer import OptimizerLike, user_optimizer
from fairbench.api.previewed import Previewed, PreviewRow
from fairbench.api.suite import Suite, as_suite
from fairbench.common.terminal import say
from fairbench.data.dataset_config import check_prepared, configs_of
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.report.fields import names_of
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


def rates(optimizer: ResolvedOptimizer, sweep: Sweep, chosen: Sequence[float]) -> list[float]:
    """The learning rates of an optimizer in a preview: its fixed rate, the chosen rates, or three of its grid."""
    if chosen and optimizer.lr is None:
        return list(chosen)
    search = search_for(sweep, optimizer)
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
