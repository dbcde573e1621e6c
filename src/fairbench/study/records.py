"""Records on disk, the only truth: content-addressed, complete or not there at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.common.hashing import digest
from fairbench.study.trial_spec import ID_DIGITS, TrialSpec

if TYPE_CHECKING:
    from fairbench.study.snapshot import Snapshot


ABANDONED = 600.0
"""Seconds after which nobody still writes a temporary file."""


class Store:
    """The records of one study, `DIR/trials/<id>.json`.

    Args:
        directory: the study's output directory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trials, self.checkpoints, self.claims = (directory / name for name in ("trials", "checkpoints", "claims"))

    def prepare(self) -> None:
        """Make the folders that drivers write to, and clear what killed ones have left.

        Raises:
            UsageError: the directory cannot be written.
        """
        try:
            for folder in (self.trials, self.checkpoints, self.claims, self.directory / "drivers"):
                folder.mkdir(parents=True, exist_ok=True)
            self.clear()  # which writes, too
        except OSError as error:
            reason = f"cannot write to {self.directory}: {error.strerror or error}"
            raise UsageError(f"{reason}; choose another --output-dir") from error

    def clear(self) -> None:
        """Remove what killed drivers have left: files half written, checkpoints and claims of ended trials."""
        with tempfile.TemporaryFile(dir=self.trials) as file:
            now = os.fstat(file.fileno()).st_mtime  # by the clock that the others' times are of
        for leftover in (*self.directory.glob(".*.tmp"), *self.directory.glob("*/.*.tmp")):
            with suppress(FileNotFoundError):  # somebody else clears, too
                if now - leftover.stat().st_mtime > ABANDONED:  # by one that was killed while it wrote
                    leftover.unlink()
        for path in (*self.claims.glob("*"), *self.checkpoints.glob("*")):
            if self.has_ended(path.name.partition(".")[0]):
                path.unlink(missing_ok=True)

    def snapshot(self) -> Snapshot:
        """The records as they are now: a study that runs meanwhile does not change under its reader."""
        from fairbench.study.snapshot import Snapshot  # which writes its index as we write records

        return Snapshot(self.directory)

    def final_trials(self) -> int:
        """How many final trials have a record, of any plan; one that cannot be read may be one."""
        return self.snapshot().final_trials()

    def path(self, spec: TrialSpec) -> Path:
        """Where the record of a trial lies."""
        return self.trials / f"{spec.id}.json"

    def has_ended(self, trial: str) -> bool:
        """Whether the trial of that id has a record for good; one that failed is tried again."""
        try:
            found = read_record(self.trials / f"{trial}.json", lambda state: False)
        except UsageError:
            return False
        return found is not None and found[0]["status"] in ("finished", "diverged")

    def write(self, record: Record) -> bool:
        """Write a record atomically, with a checksum of all that it says; then its checkpoint goes.

        Returns:
            False if the trial has a record for good: two drivers may end one trial
            (see `runner/coordination/claims.py`), and the first record counts.
        """
        trial = record["id"]
        is_first = not self.has_ended(trial)
        if is_first:
            text = json.dumps({**record, "sha256": digest(record)}, sort_keys=True, indent=1)
            write_atomically(self.trials / f"{trial}.json", text + "\n")
        if record["status"] != "failed":
            for path in (self.checkpoint(trial), self.shared(trial), *self.checkpoints.glob(f".{trial}.pt.*.tmp")):
                path.unlink(missing_ok=True)
        return is_first

    def checkpoint(self, trial: str) -> Path:
        """Where the checkpoint of the trial of that id lies while the trial has no record."""
        return self.checkpoints / f"{trial}.pt"

    def shared(self, trial: str) -> Path:
        """Where an empty file lies while that trial has no record, if it was seen to share its core or GPU."""
        return self.checkpoints / f"{trial}.shared"

    def stamp(self, spec: TrialSpec) -> Stamp:
        """What changes whenever the record of a trial is written; empty while there is none."""
        try:
            return stamp(self.path(spec).stat())
        except FileNotFoundError:
            return []

    def read(self, spec: TrialSpec) -> Record | None:
        """The record of a trial, None when there is none.

        Raises:
            UsageError: the record is damaged; it is left as it is.
        """
        found = read_record(self.path(spec), lambda state: False)
        return None if found is None else found[0]


def read_record(path: Path, checked: Callable[[Stamp], bool]) -> tuple[Record, Stamp] | None:
    """A record and the state of its file, None when there is none.

    Args:
        path: the file.
        checked: whether a file in such a state is known to hold the record that its name says, undamaged.

    Raises:
        UsageError: the record is damaged; it is left as it is.
    """
    try:
        with path.open("rb", buffering=0) as file:  # which is read as a whole
            state = stamp(os.fstat(file.fileno()))
            record = _parsed(file.read())
        checksum = record.pop("sha256")
        if not checked(state):
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


def _parsed(text: bytes) -> Record:
    """A record; what orjson refuses, as a lone surrogate in a path that an error names, json may read."""
    try:
        record: Record = orjson.loads(text)
    except ValueError:
        record = json.loads(text)
    return record


Record = dict[str, Any]


Stamp = list[int]
"""A state of a file: size, time of its content, time of its inode (which nobody can set back), number of its inode."""


def stamp(state: os.stat_result) -> Stamp:
    """The state that a file is in."""
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def judged(record: Record, store: Store) -> Record:
    """A record that says whether its trial was seen to share."""
    if not record["cost"] or not store.shared(record["id"]).exists():
        return record
    return {**record, "cost": {**record["cost"], "alone": False}}
