"""Records on disk, the only truth: content-addressed, complete or not there at all."""

import errno
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fairbench.errors import UsageError
from fairbench.spec import TrialSpec, digest

Record = dict[str, Any]
ABANDONED = 600.0
"""Seconds after which nobody still writes a temporary file."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it has its old or its new content, never a part: temporary file, fsync, rename.

    Raises:
        UsageError: the disk is full or the folder cannot be written; the old content is still there.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
        raise UsageError(
            f"cannot write {path}: {reason}; everything written before is kept, "
            "make room or choose another folder and run the same command again"
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make a rename in the folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _may_be_final(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text())["spec"]["stage"] == "final")
    except (ValueError, KeyError, TypeError, OSError):
        return True


class Store:
    """The records of one study, `DIR/trials/<id>.json`.

    Args:
        directory: the study's output directory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trials = directory / "trials"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the output directory against a second run; the operating system frees it however this one ends.

        Raises:
            UsageError: another run holds it, or the directory cannot be written.
        """
        lock = FileLock(self.directory / ".lock", timeout=0)
        try:
            self.trials.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout as error:
            raise UsageError(f"another fairbench run is writing to {self.directory}; wait for it or stop it") from error
        except OSError as error:
            reason = f"cannot write to {self.directory}: {error.strerror or error}"
            raise UsageError(f"{reason}; choose another --output-dir") from error
        try:
            for folder in (self.directory, self.trials, self.directory / "figures"):
                for leftover in folder.glob(".*.tmp"):
                    if time.time() - leftover.stat().st_mtime > ABANDONED:  # by one that was killed while it wrote
                        leftover.unlink(missing_ok=True)
            yield
        finally:
            lock.release()

    def snapshot(self) -> Callable[[TrialSpec], Record | None]:
        """A lookup that reads each record once: a study that runs meanwhile does not change under its reader."""
        seen: dict[str, Record | None] = {}

        def lookup(spec: TrialSpec) -> Record | None:
            if spec.id not in seen:
                seen[spec.id] = self.read(spec)
            return seen[spec.id]

        return lookup

    def final_trials(self) -> int:
        """How many final trials have a record, of any plan; one that cannot be read may be one."""
        return sum(_may_be_final(path) for path in self.trials.glob("*.json"))

    def path(self, spec: TrialSpec) -> Path:
        """Where the record of a trial lies."""
        return self.trials / f"{spec.id}.json"

    def write(self, record: Record) -> None:
        """Write a record atomically, with a checksum of all that it says."""
        path = self.trials / f"{record['id']}.json"
        write_atomically(path, json.dumps({**record, "sha256": digest(record)}, sort_keys=True, indent=1) + "\n")

    def read(self, spec: TrialSpec) -> Record | None:
        """The record of a trial, None when there is none.

        Raises:
            UsageError: the record is damaged; it is left as it is.
        """
        path = self.path(spec)
        try:
            record: Record = json.loads(path.read_text())
            checksum = record.pop("sha256")
            if checksum != digest(record):
                raise ValueError("its checksum does not match")
            if record["spec"] != spec.as_stored:
                raise ValueError("it is the record of another trial")
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, AttributeError, TypeError, OSError) as error:
            raise UsageError(
                f"damaged record {path} ({error}); nothing was changed: delete that file to run this trial again"
            ) from error
        return record
