"""Records on disk, named by the hash of their spec; each is complete or absent. All else is derived from them."""

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from fairbench.common.errors import UsageError
from fairbench.common.files import Stamp, stamp, write_atomically
from fairbench.common.hashing import digest
from fairbench.study.trial_spec import ID_DIGITS, TrialSpec

Record = dict[str, Any]
ABANDONED = 600.0
"""Seconds after which a temporary file is no longer being written."""


class Store:
    """The records of one study, `DIR/trials/<id>.json`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trials, self.checkpoints, self.claims = (directory / name for name in ("trials", "checkpoints", "claims"))

    def prepare(self) -> None:
        """Make the folders that drivers write to, and remove leftovers of killed drivers.

        Raises:
            UsageError: the directory cannot be written.
        """
        try:
            for folder in (self.trials, self.checkpoints, self.claims, self.directory / "drivers"):
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
            with suppress(FileNotFoundError):  # another driver clears at the same time
                if now - leftover.stat().st_mtime > ABANDONED:
                    leftover.unlink()
        for path in (*self.claims.glob("*"), *self.checkpoints.glob("*")):
            if self.has_ended(path.name.partition(".")[0]):
                path.unlink(missing_ok=True)

    def path(self, spec: TrialSpec) -> Path:
        """The file of a trial's record."""
        return self.trials / f"{spec.id}.json"

    def has_ended(self, trial: str) -> bool:
        """Whether the trial with that id has a final record; a failed trial runs again."""
        try:
            record_and_stamp = read_record(self.trials / f"{trial}.json", lambda state: False)
        except UsageError:
            return False
        return record_and_stamp is not None and record_and_stamp[0]["status"] in ("finished", "diverged")

    def write(self, record: Record) -> bool:
        """Write a record atomically, with its checksum, and remove the trial's checkpoint.

        The record gets `alone: false` if the trial was marked as sharing its machine.

        Returns:
            False if the trial already has a final record: two drivers may complete the same trial
            (see `runner/coordination/claims.py`), and the first record counts.
        """
        trial = record["id"]
        is_first = not self.has_ended(trial)
        if is_first:
            if record.get("cost") and self.shared(trial).exists():
                record = {**record, "cost": {**record["cost"], "alone": False}}
            text = json.dumps({**record, "sha256": digest(record)}, sort_keys=True, indent=1)
            write_atomically(self.trials / f"{trial}.json", text + "\n")
        if record["status"] != "failed":
            for path in (self.checkpoint(trial), self.shared(trial), *self.checkpoints.glob(f".{trial}.pt.*.tmp")):
                path.unlink(missing_ok=True)
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
        """The record of a trial; None without one.

        Raises:
            UsageError: the record is damaged; it is left unchanged.
        """
        record_and_stamp = read_record(self.path(spec), lambda state: False)
        return None if record_and_stamp is None else record_and_stamp[0]


def read_record(path: Path, is_verified: Callable[[Stamp], bool]) -> tuple[Record, Stamp] | None:
    """A record and the stamp of its file; None without one.

    Args:
        is_verified: whether a file with this stamp is known to hold the right record, undamaged.

    Raises:
        UsageError: the record is damaged; it is left unchanged.
    """
    try:
        with path.open("rb", buffering=0) as file:  # it is read in one piece
            state = stamp(os.fstat(file.fileno()))
            content = file.read()
        try:
            record: Record = orjson.loads(content)
        except ValueError:  # json accepts what orjson rejects, such as a lone surrogate in a path
            record = json.loads(content)
        checksum = record.pop("sha256")
        if not is_verified(state):
            if checksum != digest(record):
                raise ValueError("its checksum does not match")
            if digest(record["spec"])[:ID_DIGITS] != path.stem:
                raise ValueError("it is the record of another trial")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, AttributeError, TypeError, OSError) as error:
        raise UsageError(
            f"damaged record {path} ({error}); nothing was changed: delete that file to run this trial again"
        ) from error
    return record, state
