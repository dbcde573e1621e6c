"""The course of a study: plan, run what is missing, keep every record, report."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from fairbench.errors import UsageError
from fairbench.executors import Executor
from fairbench.executors.processes import ProcessExecutor
from fairbench.optimizers import OPTIMIZERS
from fairbench.plan import Arm, Record, Schedule, Study, arms
from fairbench.progress import Progress
from fairbench.rehearsal import Rehearsal, rehearse
from fairbench.spec import TrialSpec
from fairbench.store import Store, write_atomically
from fairbench.suite import Suite

PRELOAD = ("fairbench.trial", "fairbench.code", "sklearn.datasets")
"""What every process needs, and takes long to load."""
LEAST_LIMIT = 300.0
"""Seconds that every trial may take, since data and evaluations take some that no step tells of."""
GENEROSITY = 50


def run_study(
    suite: Suite, directory: Path, workers: int, device: str, console: Console, trial_timeout: float = 0.0
) -> None:
    """Run every trial of a suite that has no record yet.

    Args:
        suite: the suite.
        directory: the output directory.
        workers: how many trials run at the same time; 0 runs one, forked from this process.
        device: device of the trials.
        console: where progress is shown.
        trial_timeout: seconds that a trial may take; 0 takes the suite's, or what the rehearsal suggests.

    Raises:
        UsageError: the directory holds another suite, cannot be written, or has a damaged record.
        KeyboardInterrupt: the user stopped it; finished trials are kept.
    """
    store = Store(directory)
    stage = max(suite.sweep.points * len(suite.sweep.seeds), len(suite.final.seeds))
    workers = min(workers, len(suite.arenas) * len(suite.optimizers) * stage)
    with store.locked(), Progress(console, max(workers, 1)) as progress:
        check_directory(suite, directory)
        preload = [*PRELOAD, *(f"fairbench.arenas.{name}" for name in suite.arenas)]
        known = (OPTIMIZERS[name] for name, plan in suite.optimizers.items() if not plan.factory)
        preload += [facts.factory.partition(":")[0] for facts in known]
        with ProcessExecutor(workers, progress.running, preload) as executor:
            rehearsal = rehearse(suite, device, executor.call)
            study = rehearsal.study
            write_atomically(directory / "config.json", json.dumps({"study": study.to_json()}, indent=1) + "\n")
            limits = time_limits(rehearsal, trial_timeout or suite.trial_timeout)
            run_missing(study, store, executor, progress, limits)


def time_limits(rehearsal: Rehearsal, trial_timeout: float) -> dict[str, float]:
    """How many seconds a trial of each arena may take: so many, or generously more than its steps took in rehearsal."""
    return {
        name: trial_timeout or LEAST_LIMIT + GENEROSITY * plan.steps * rehearsal.step_seconds[name]
        for name, plan in rehearsal.study.suite.arenas.items()
    }


def run_missing(
    study: Study, store: Store, executor: Executor, progress: Progress, limits: Mapping[str, float]
) -> None:
    """Run trials until none is missing; each record is on disk before the next trial is planned."""
    records: dict[str, Record | None] = {}
    running: dict[str, TrialSpec] = {}

    def lookup(spec: TrialSpec) -> Record | None:
        """The record, read once; what failed in an earlier run is tried again."""
        if spec.id not in records:
            record = store.read(spec)
            records[spec.id] = None if record and record["status"] == "failed" else record
        return records[spec.id]

    schedule = Schedule(study, lookup)
    while True:
        progress.planned(schedule.outlook())
        while executor.has_room() and (spec := schedule.next()):
            running[spec.id] = spec
            progress.started(spec)
            executor.submit(spec, limits[spec.arena.name])
        if not running:
            return
        for record in executor.collect():
            spec = running.pop(record["id"])
            store.write(record)
            records[spec.id] = record
            schedule.ended(spec)
            progress.ended(spec, record)


def check_directory(suite: Suite, directory: Path) -> None:
    """Refuse to mix two suites in one output directory.

    Raises:
        UsageError: the directory holds another suite's study.
    """
    if (directory / "config.json").exists():
        held = read_config(directory).suite.name
        if held != suite.name:
            raise UsageError(f"{directory} holds suite {held!r}, not {suite.name!r}; choose another --output-dir")


def read_config(directory: Path) -> Study:
    """Read the study of `config.json`.

    Raises:
        UsageError: the file is not there or damaged.
    """
    path = directory / "config.json"
    try:
        return Study.from_json(json.loads(path.read_text())["study"], str(path))
    except FileNotFoundError:
        raise UsageError(f"{directory} holds no study: there is no config.json") from None
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        reason = f"damaged {path} ({type(error).__name__}: {error})"
        raise UsageError(f"{reason}; move it away and run the same suite again: finished trials are kept") from error


@contextmanager
def finished_study(directory: Path) -> Iterator[tuple[Study, list[Arm], Any]]:
    """The study of an output directory with its arms and the lookup of its records, held against a running study."""
    if not directory.is_dir():
        raise UsageError(f"{directory} holds no study: there is no such directory")
    store = Store(directory)
    with store.locked():
        study = read_config(directory)
        yield study, arms(study, store.read), store.read
