"""The course of a study: plan, run what is missing, keep every record, report."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from fairbench.errors import UsageError
from fairbench.executors import Executor
from fairbench.executors.processes import ProcessExecutor
from fairbench.executors.serial import SerialExecutor
from fairbench.plan import Arm, Record, Study, arms, missing, outlook
from fairbench.progress import Progress
from fairbench.spec import TrialSpec
from fairbench.store import Store, write_atomically
from fairbench.suite import Suite


def run_study(suite: Suite, directory: Path, workers: int, device: str, console: Console) -> None:
    """Run every trial of a suite that has no record yet.

    Args:
        suite: the suite.
        directory: the output directory.
        workers: worker processes; 0 runs the trials in this process.
        device: device of the trials.
        console: where progress is shown.

    Raises:
        UsageError: the directory holds another suite, cannot be written, or has a damaged record.
        KeyboardInterrupt: the user stopped it; finished trials are kept.
    """
    store = Store(directory)
    stage = max(suite.sweep.points * len(suite.sweep.seeds), len(suite.final.seeds))
    workers = min(workers, len(suite.arenas) * len(suite.optimizers) * stage)
    with store.locked(), Progress(console, max(workers, 1)) as progress:
        check_directory(suite, directory)
        with executor(suite, workers, progress) as running:
            study = running.resolve(suite, device)
            write_atomically(directory / "config.json", json.dumps({"study": study.to_json()}, indent=1) + "\n")
            run_missing(study, store, running, progress)


def executor(suite: Suite, workers: int, progress: Progress) -> Executor:
    """Worker processes, or this process when there are to be none."""
    if not workers:
        return SerialExecutor(progress.running)
    preload = ["fairbench.trial", *(f"fairbench.arenas.{name}" for name in suite.arenas)]
    return ProcessExecutor(workers, progress.running, preload)


def run_missing(study: Study, store: Store, executor: Executor, progress: Progress) -> None:
    """Run trials until none is missing; each record is on disk before the next trial is planned."""
    records: dict[str, Record | None] = {}
    running: dict[str, TrialSpec] = {}

    def lookup(spec: TrialSpec) -> Record | None:
        """The record, read once; what failed in an earlier run is tried again."""
        if spec.id not in records:
            record = store.read(spec)
            records[spec.id] = None if record and record["status"] == "failed" else record
        return records[spec.id]

    while True:
        planned = arms(study, lookup)
        progress.planned(outlook(study, planned, lookup))
        for spec in missing(planned, lookup):
            if not executor.has_room():
                break
            if spec.id not in running:
                running[spec.id] = spec
                progress.started(spec)
                executor.submit(spec)
        if not running:
            return
        for record in executor.collect():
            store.write(record)
            records[record["id"]] = record
            progress.ended(running.pop(record["id"]), record)


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
