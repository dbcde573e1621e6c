"""The records of a study at one moment, each read at most once."""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic

from msgspec.structs import force_setattr

from fairbench.common.errors import UsageError
from fairbench.study.history import History, read_history
from fairbench.study.record import RecordT, WholeRecord
from fairbench.study.records import SUFFIX, Store
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import suite_names


class Snapshot(Generic[RecordT]):
    """The records of a study, each as it is when it is first read. Records that were written later are absent.

    A damaged record counts as the record of a failed trial. A record is also damaged if it has not measured the metrics
    of its arena.
    """

    def __init__(self, directory: Path, metrics: Mapping[str, Collection[str]], kind: type[RecordT]) -> None:
        self._store = Store(directory)
        self._metrics = metrics
        self._kind = kind
        self._present: set[str] = set()  # ids of the trials with a record
        with suppress(FileNotFoundError), os.scandir(self._store.trials) as files:
            names = [file.name for file in files]
            self._present = {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}
        self._read: dict[str, RecordT] = {}
        self._environments: dict[Any, dict[str, str]] = {}

    def __call__(self, spec: TrialSpec) -> RecordT | None:
        """The record of a trial; None without one. For a damaged record, the record of a failed trial is returned."""
        record = self._read.get(spec.id)
        if record is not None or spec.id not in self._present:
            return record  # it was read before, or is absent
        record = self._store.read(spec, self._kind, self._metrics[spec.arena.name])
        if record:
            self._read[spec.id] = record
            if record.environment:  # many records share one dictionary, to save memory
                facts = tuple(record.environment.items())
                shared = self._environments.setdefault(facts, record.environment)
                force_setattr(record, "environment", shared)
        return record

    def has_ended(self, trial: str) -> bool:
        """Whether a record was read for the trial with this id, and the trial has not failed."""
        return trial in self._read and self._read[trial].status != "failed"

    @property
    def damaged(self) -> list[str]:
        """A message on each damaged record that was read."""
        return [record.error.message for record in self._read.values() if record.error and record.is_damaged]

    def refreshed(self) -> "Snapshot[RecordT]":
        """A snapshot of the records as they are now. Records are not read again, except those of failed trials."""
        later = Snapshot(self._store.directory, self._metrics, self._kind)
        for trial, record in self._read.items():
            if record.status != "failed" and trial in later._present:
                later._read[trial] = record
        return later


def open_study(directory: Path) -> tuple[History, Snapshot[WholeRecord]]:
    """The plans of an output directory and its records as they are now. It raises what `read_plans` raises."""
    history = read_plans(directory)
    return history, Snapshot(directory, history.study.suite.metrics, WholeRecord)


def read_plans(directory: Path) -> History:
    """The plans of an output directory. Raises `UsageError` if there is no study, or its configuration is damaged."""
    history = read_history(directory)
    if not history.plans:
        reason = "there is no config.json" if directory.is_dir() else "there is no such directory"
        advice = "give the --output-dir of a run, such as results/mini"
        if str(directory) in suite_names():
            advice = f"the study of a suite is in results/{directory}"
        raise UsageError(f"{directory} holds no study: {reason}; {advice}")
    return history
