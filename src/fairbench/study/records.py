"""Records on disk, named by the hash of their spec; each is complete or absent. All else is derived from them."""

import json
import os
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.files import Stamp, remove, stamp, write_atomically
from fairbench.common.hashing import digest
from fairbench.common.reading import Damaged, parse_json, read_file
from fairbench.study.folder import CHECKPOINTS, CLAIMS, DRIVERS, TRIALS
from fairbench.study.record_shape import Metrics, checked_record
from fairbench.study.trial_spec import ID_DIGITS, TrialSpec

Record = dict[str, Any]
ABANDONED = 600.0
"""Seconds after which a temporary file is no longer being written."""
DAMAGED = "damaged record"
"""The type of the error of a trial whose record cannot be read; no class has that name."""


class Store:
    """The records of one study, `DIR/trials/<id>.json`.

    Attributes:
        metrics: what the records of each arena must have measured; unknown before the study has a plan.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.metrics = directory, dict[str, Collection[str]]()
        self.trials, self.checkpoints, self.claims = (directory / name for name in (TRIALS, CHECKPOINTS, CLAIMS))

    def prepare(self) -> None:
        """Make the folders that drivers write to, and remove leftovers of killed drivers.

        Raises:
            UsageError: the directory cannot be written.
        """
        try:
            for folder in (self.trials, self.checkpoints, self.claims, self.directory / DRIVERS):
                folder.mkdir(parents=True, exist_ok=True)
            self.clear()  # which also writes
        except OSError as error:
            reason = f"cannot write to {self.directory}: {error.strerror or error}"
            raise UsageError(f"{reason}; choose another --output-dir") from error

    def clear(self) -> None:
        """Remove leftovers of killed drivers: partly written files, checkpoints and claims of ended trials."""
        with tempfile.TemporaryFile(dir=self.trials) as file:
            now = os.fstat(file.fileno()).st_mtime  # by the clock of the file system, as the other files' times
        for leftover in (*self.directory.glob(".*.tmp"), *self.directory.glob("*/.*.tmp")):
            with suppress(OSError):  # another driver clears at the same time, or it is another user's
                if now - leftover.stat().st_mtime > ABANDONED:
                    leftover.unlink()
        for path in (*self.claims.glob("*"), *self.checkpoints.glob("*")):
            if self.has_ended(path.name.partition(".")[0]):
                remove(path)

    def path(self, spec: TrialSpec) -> Path:
        """The file of a trial's record."""
        return self.trials / f"{spec.id}.json"

    def has_ended(self, trial: str) -> bool:
        """Whether the trial with that id has a final record; a failed trial runs again."""
        record = self._read(trial)
        return isinstance(record, dict) and record["status"] != "failed"

    def _read(self, trial: str) -> Record | Damaged | None:
        read = read_record(self.trials / f"{trial}.json", self.metrics)
        return read[0] if isinstance(read, tuple) else read

    def write(self, record: Record) -> bool:
        """Write a record atomically, with its checksum, and remove the trial's checkpoint.

        The record gets `alone: false` if the trial was marked as sharing its machine.

        Returns:
            False if the trial already has a final record: two drivers may complete the same trial
            (see `runner/coordination/claims.py`), and the first record counts. One that cannot be read may be final.
        """
        trial = record["id"]
        earlier = self._read(trial)
        is_first = not (earlier.locked if isinstance(earlier, Damaged) else earlier and earlier["status"] != "failed")
        if is_first:
            if record.get("cost") and self.shared(trial).exists():
                record = {**record, "cost": {**record["cost"], "alone": False}}
            text = json.dumps({**record, "sha256": digest(record)}, sort_keys=True, indent=1)
            write_atomically(self.trials / f"{trial}.json", text + "\n")
        if record["status"] != "failed":
            for path in (self.checkpoint(trial), self.shared(trial), *self.checkpoints.glob(f".{trial}.*.tmp")):
                remove(path)
        return is_first

    def checkpoint(self, trial: str) -> Path:
        """The checkpoint file of the trial with that id, until the trial has a record."""
        return self.checkpoints / f"{trial}.pt"

    def shared(self, trial: str) -> Path:
        """An empty file that marks a trial without a record as sharing its machine with another driver's trials."""
        return self.checkpoints / f"{trial}.shared"

    def stamp(self, spec: TrialSpec) -> Stamp:
        """A value that changes whenever the record of a trial is written; empty without a record."""
        try:
            return stamp(self.path(spec).stat())
        except FileNotFoundError:
            return []

    def read(self, spec: TrialSpec) -> Record | None:
        """The record of a trial, or its stand-in if it is damaged; None without one."""
        record = self._read(spec.id)
        return stand_in(spec, record) if isinstance(record, Damaged) else record


def read_record(
    path: Path, metrics: Metrics, is_verified: Callable[[Stamp], bool] = lambda state: False
) -> tuple[Record, Stamp] | Damaged | None:
    """A record and the stamp of its file; None without one.

    Args:
        path: the file.
        metrics: what the records of each arena must have measured.
        is_verified: whether a file with this stamp is known to hold the right record, undamaged.
    """

    def interpret(content: bytes, state: Stamp) -> tuple[Record, Stamp]:
        value = parse_json(content, is_verified(state))
        checksum = value.pop("sha256", None) if isinstance(value, dict) else None
        if is_verified(state):
            return value, state
        if checksum != digest(value):
            raise ValueError("its checksum does not match")
        record = checked_record(value, metrics)
        if {record["id"], digest(value["spec"])[:ID_DIGITS]} != {path.stem}:
            raise ValueError("it is the record of another trial")
        return record, state

    return read_file(path, interpret)


def stand_in(spec: TrialSpec, damaged: Damaged) -> Record:
    """What counts as the record of a trial whose record is damaged: that of a failed trial."""
    message = damage(damaged)
    error = {"type": DAMAGED, "message": message, "traceback": message}
    parts = {"result": None, "cost": None, "environment": None}
    return {"id": spec.id, "spec": spec.as_stored, "status": "failed", "error": error, **parts}


def damage(damaged: Damaged) -> str:
    """The message on a damaged record, with the way out."""
    return damaged.text("record", "nothing was changed: delete that file to run this trial again")


def is_damaged(record: Record) -> bool:
    """Whether a record is the stand-in for a damaged one."""
    return (record.get("error") or {}).get("type") == DAMAGED
