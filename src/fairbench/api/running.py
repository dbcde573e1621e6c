"""Runs, checks and previews for Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fairbench.api.optimizer import Given, user_optimizer
from fairbench.api.places import places
from fairbench.api.study import Study
from fairbench.api.suite import Suite
from fairbench.common.console import Terminal
from fairbench.contract.run_checks import check_all
from fairbench.report.sections.verdicts import flag_table
from fairbench.report.table import Audit, Table, table_of
from fairbench.runner.executors.local import call_each
from fairbench.runner.preview import Preview, run_preview
from fairbench.runner.progress.live import LiveProgress
from fairbench.runner.run_options import RunOptions
from fairbench.runner.run_study import run_study
from fairbench.suites.loader import changed
from fairbench.suites.overrides import Overrides


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
    chosen, folder = (suite if isinstance(suite, Suite) else Suite.load(suite)), Path(directory)
    options = RunOptions(places(device, workers, data_root, folder), timing=timing)
    run_study(chosen.placed(folder), folder, options, [LiveProgress(Terminal(quiet=not progress))])
    return Study(folder)


def check(optimizer: Given) -> Audit:
    """Check whether an optimizer keeps the contract that a training relies on.

    Args:
        optimizer: a name, `module:Class`, `path/to/file.py:Class`, or a class, which may be defined in a notebook.

    Returns:
        The result of every check; `ok` if none failed.

    Raises:
        UsageError: there is no such optimizer, or trials cannot load it.

    >>> fb.check("AdamW").ok
    True
    """
    own = user_optimizer(optimizer)
    with TemporaryDirectory() as folder:
        flags = check_all(own.name, own.placed(Path(folder)), call_each)
    return flag_table(flags)


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


def try_(
    optimizer: Given,
    against: Sequence[str] = ("AdamW",),
    suite: Suite | str = "mini",
    arena: str | None = None,
    lr: Sequence[float] = (),
    workers: int | None = None,
) -> Table[PreviewRow]:
    """Preview an optimizer: a few short trials in one arena, and no result.

    Args:
        optimizer: as for `fb.check`.
        against: the optimizers that it is shown with.
        suite: has the arena and the settings.
        arena: the arena; None for the first one of the suite.
        lr: learning rates; empty takes three of the suite's grid.
        workers: trials at a time, see `fb.run`.

    Returns:
        A row for each trial.

    Raises:
        UsageError: an optimizer or data are missing.

    >>> rows = fb.try_("own_optimizers.py:Signs", suite="tiny.toml", lr=[0.001], workers=2)
    >>> [(row.optimizer, row.status) for row in rows]
    [('AdamW', 'finished'), ('Signs', 'finished')]
    """
    chosen = suite if isinstance(suite, Suite) else Suite.load(suite)
    own = user_optimizer(optimizer, known=chosen.content.optimizers)
    with TemporaryDirectory() as folder:
        content = chosen.placed(Path(folder))
        content = replace(content, optimizers={**content.optimizers, own.name: own.placed(Path(folder))})
        compared = [*(name for name in against if name != own.name), own.name]
        overrides = Overrides(arenas=[arena] if arena else None, optimizers=compared, preview=True)
        preview = run_preview(changed(content, overrides), lr, places("cpu", workers, "data", Path(folder)))
    return table_of(PreviewRow, [*_rows(preview)])


def _rows(preview: Preview) -> Iterator[PreviewRow]:
    for name, of_rate in preview.records.items():
        for rate, record in of_rate.items():
            error = record.error.message if record.error else ""
            yield PreviewRow(name, rate, preview.metric, preview.value(name, rate), record.status, error)
