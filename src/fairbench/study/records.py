"""Records on disk. Each is named by the hash of its spec, and complete or absent. All results derive from them."""

import os
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from fairbench.arenas.program import own_folder
from fairbench.common.errors import UsageError
from fairbench.common.files import Stamp, remove, stamp, write_atomically
from fairbench.common.reading import Damaged, read_file
from fairbench.study.folder import CHECKPOINTS, CLAIMS, DRIVERS, TRIALS
from fairbench.study.record import DAMAGED, Error, Record, RecordT, WholeRecord, decode, encode
from fairbench.study.trial_spec import TrialSpec

ABANDONED = 600.0
"""Seconds after which a temporary file is no longer being written."""
SUFFIX = ".json"
"""End of a record's file name, after the trial's id."""


class Store:
    """The files of the trials of one study, `DIR/trials/<id>.json` among them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trials = directory / TRIALS
        self.checkpoints = directory / CHECKPOINTS
        self.claims = directory / CLAIMS
        self._folder = str(self.trials)

    def prepare(self) -> None:
        """Make the folders that drivers write to, and remove leftovers of killed drivers."""
        try:
            for folder in (self.trials, self.checkpoints, self.claims, self.directory / DRIVERS):
                folder.mkdir(parents=True, exist_ok=True)
            self.clear()  # it also shows whether files can be written
        except OSError as error:
            reason = f"cannot write to {self.directory}: {error.strerror or error}"
            raise UsageError(f"{reason}; choose another --output-dir") from error

    def clear(self) -> None:
        """Remove leftovers of killed drivers: partly written files, checkpoints and claims of ended trials."""
        with tempfile.TemporaryFile(dir=self.trials) as file:
            now = os.fstat(file.fileno()).st_mtime  # by the clock of the file system, which other files have
        for leftover in (*self.directory.glob(".*.tmp"), *self.directory.glob("*/.*.tmp")):
            with suppress(OSError):  # another driver clears at the same time, or it is another user's
                if now - leftover.stat().st_mtime > ABANDONED:
                    leftover.unlink()
        for path in (*self.claims.glob("*"), *self.checkpoints.glob("*")):
            if self.has_ended(path.name.partition(".")[0]):
                remove(path)

    def path(self, trial: str) -> Path:
        """The file of the record of the trial with this id."""
        return self.trials / f"{trial}{SUFFIX}"

    def has_ended(self, trial: str) -> bool:
        """Whether the trial with this id has a record and will not run again. A failed trial runs again."""
        record = self._read(trial, Record)
        return isinstance(record, Record) and record.status != "failed"

    def final_trials(self) -> int:
        """The number of final trials, of any plan, that have a record. A damaged record counts."""
        count = 0
        for path in self.trials.glob(f"*{SUFFIX}"):
            record = self._read(path.stem, Record)
            is_final = isinstance(record, Record) and record.stage == "final"
            if is_final or isinstance(record, Damaged):
                count += 1
        return count

    def read(self, spec: TrialSpec, kind: type[RecordT], metrics: Collection[str] | None = None) -> RecordT | None:
        """The record of a trial; None without one. For a damaged record, the record of a failed trial is returned.

        A record is also damaged if it has not measured the given metrics.
        """
        record = self._read(spec.id, kind, metrics)
        if not isinstance(record, Damaged):
            return record
        message = record.text("record", "nothing was changed: delete that file to run this trial again")
        return kind(id=spec.id, stage=spec.stage, status="failed", error=Error(DAMAGED, message, message))

    def _read(
        self, trial: str, kind: type[RecordT], metrics: Collection[str] | None = None
    ) -> RecordT | Damaged | None:
        """The record of the trial with this id, why it is damaged, or None without a record."""

        def interpret(content: bytes) -> RecordT:
            record = decode(content, kind, metrics)
            if record.id != trial:
                raise ValueError("it is the record of another trial")
            return record

        path = f"{self._folder}/{trial}{SUFFIX}"  # a text: there are many, and a Path takes longer to make
        return read_file(path, interpret)

    def write(self, spec: TrialSpec, record: WholeRecord) -> bool:
        """Write a record atomically, with its checksum. Unless the trial failed, remove what it needed to continue.

        Two drivers may complete the same trial (see `runner/coordination/claims.py`): the first record counts. A trial
        that was marked as sharing its machine gets `alone` false.

        Returns:
            Whether the record was written; False if the trial has a record that counts already.
        """
        is_first = self._may_write(spec.id)
        shared = self.shared(spec.id)
        to_continue = (self.checkpoint(spec.id), *self.program_folders(spec.id), shared)
        if is_first:
            if record.cost and shared.exists():
                record = replace(record, cost=replace(record.cost, alone=False))
            content = encode(spec, record)
            write_atomically(self.path(spec.id), content)
        if record.status != "failed":
            partly_written = self.checkpoints.glob(f".{spec.id}.*.tmp")
            for path in (*to_continue, *partly_written):
                remove(path)
        return is_first

    def _may_write(self, trial: str) -> bool:
        """Whether a record of the trial may be written: it has none, or a failed or damaged one that may be read."""
        earlier = self._read(trial, Record)
        if isinstance(earlier, Damaged):
            return not earlier.locked  # a record that this user may not read may be final
        return earlier is None or earlier.status == "failed"

    def checkpoint(self, trial: str) -> Path:
        """The checkpoint file of the trial with this id. It is removed when the trial has a record."""
        return self.checkpoints / f"{trial}.pt"

    def program_folder(self, trial: str) -> Path:
        """The folder in which a training program runs the trial with this id. It is removed with the checkpoint."""
        return self.checkpoints / trial

    def program_folders(self, trial: str) -> tuple[Path, Path]:
        """The folder of the program of a trial, and that of fairbench's own files of it."""
        folder = self.program_folder(trial)
        return folder, own_folder(folder)

    def shared(self, trial: str) -> Path:
        """An empty file that marks a trial without a record as sharing its machine with another driver's trials."""
        return self.checkpoints / f"{trial}.shared"

    def stamp(self, trial: str) -> Stamp:
        """A value that changes whenever the record of the trial with this id is written; empty without a record."""
        try:
            return stamp(self.path(trial).stat())
        except FileNotFoundError:
            return []
