"""A preview of an optimizer: a few short trials, and no result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Group
from rich.text import Text

from fairbench.api.optimizer import Given, user_optimizer
from fairbench.api.suite import Suite, as_suite
from fairbench.common.console import text_table, whole
from fairbench.common.formatting import number
from fairbench.common.terminal import say
from fairbench.report.table import Table, names_of
from fairbench.runner.devices import places
from fairbench.runner.preview import Preview, run_preview
from fairbench.suites.loader import changed
from fairbench.suites.overrides import Overrides


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


@dataclass(frozen=True, repr=False)
class Previewed(Table[PreviewRow]):
    """The trials of a preview; `ok` if none failed.

    Attributes:
        trials: the same with their suite and their records.
        command: of the study that gives a result.
    """

    trials: Preview | None = None
    command: str = ""

    @property
    def ok(self) -> bool:
        """Whether no trial failed."""
        return not any(row.status == "failed" for row in self.rows)

    def __rich__(self) -> Group:
        """A row for each learning rate, a column for each optimizer, and the command of a study."""
        advice = f"for a result, with a search and new seeds:\n    {self.command}"
        return Group(preview_view(self.trials) if self.trials else "", whole(advice))


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
        overrides = Overrides(arenas=arenas, optimizers=compared, settings=settings or {}, preview=True)
        where = places("cpu", workers, "data")
        tell = partial(say, is_error=True) if progress else lambda text: None
        previewed = run_preview(changed(content, overrides), lr, where, tell)
    return Previewed([*_rows(previewed)], names_of(PreviewRow), trials=previewed)


def _rows(preview: Preview) -> Iterator[PreviewRow]:
    for name, of_rate in preview.records.items():
        for rate, record in of_rate.items():
            error = record.error.message if record.error else ""
            yield PreviewRow(name, rate, preview.metric, preview.value(name, rate), record.status, error)


def preview_view(preview: Preview) -> Group:
    """A row for each learning rate, a column for each optimizer, and step times relative to the last one."""
    plan = preview.suite.arenas[preview.arena]
    score = f"{preview.metric} ({preview.suite.better(preview.arena)}) on the {preview.suite.selection_name} split"
    score += f" after {plan.sweep_steps} steps, one seed"
    rates = sorted({lr for each in preview.records.values() for lr in each})
    rows = [[f"{lr:g}", *(_cell(preview, name, lr) for name in preview.records)] for lr in rates]
    seconds = {name: preview.step_seconds(name) for name in preview.records}
    one = seconds[next(iter(preview.suite.optimizers))]
    ratios = [f"about {number(x / one, 2)}x" if x and one else "" for x in seconds.values()]
    rows.append([Text(text, "dim") for text in ("step time", *ratios)])
    return Group(
        Text.assemble(("A preview, not a result: ", "bold"), f"{preview.arena}, {score}"),
        text_table([("lr", False), *((name, True) for name in preview.records)], rows),
        *(Text(f"failed: {record.error}", "bold red") for record in preview.failed),
    )


def _cell(preview: Preview, optimizer: str, lr: float) -> Text:
    """The value at a rate, bold if it is the best of its optimizer."""
    if lr not in preview.records[optimizer]:
        return Text("")
    value = preview.value(optimizer, lr)
    if value is None:
        return Text(preview.records[optimizer][lr].status, "red")
    return Text(number(value), "bold" if lr == preview.best(optimizer) else "")
