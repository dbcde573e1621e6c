"""Where arrays are made: files that survive an interruption, and come out as a whole folder or not at all."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from fairbench.common.files import write_atomically

CHUNK = 1 << 20
JOURNAL = "journal.json"


class GrowingArray:
    """A .npy file to which rows are appended; use it in a `with` block.

    The header is written again at the end: numpy leaves room in it for the first axis to grow.

    Args:
        path: the file.
        dtype: as numpy spells it, with its byte order.
        row: shape of a row.
    """

    def __init__(self, path: Path, dtype: str, row: tuple[int, ...] = ()) -> None:
        self._dtype, self._row, self.count = np.dtype(dtype), row, 0
        self._file = path.open("w+b")
        self._write_header()

    def _write_header(self) -> None:
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self.count, *self._row)}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, rows: np.ndarray[Any, Any]) -> None:
        """Append rows, shape (N, *row)."""
        self._file.write(np.ascontiguousarray(rows, self._dtype).data)
        self.count += len(rows)

    def __enter__(self) -> "GrowingArray":
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the header and bring all of it to the disk."""
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def content_sha256(path: Path) -> str:
    """sha256 of a file; of a .npy file, that of its values alone."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        if path.suffix == ".npy":
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
        while chunk := file.read(CHUNK):
            sha.update(chunk)
    return sha.hexdigest()


class StagingFolder:
    """A folder in which a dataset is being made.

    Args:
        folder: the folder.
        identity: everything that determines the files; what was made from anything else is thrown away.

    Attributes:
        kept: files that an interrupted preparation had finished.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self._identity = folder, identity
        self.reused: list[str] = []
        self._hashes = self._journal()
        if not self._hashes:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)

    def _journal(self) -> dict[str, str]:
        try:
            content = json.loads((self.folder / JOURNAL).read_text())
            return dict(content["sha256"]) if content["identity"] == self._identity else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def ensure(self, names: list[str], work: Callable[[], None]) -> None:
        """Make files, unless they are there as they were made.

        Args:
            names: names of the files.
            work: makes them.
        """
        if all(self._is_intact(name) for name in names):
            self.reused += names
            return
        work()
        self._hashes |= {name: content_sha256(self.path(name)) for name in names}
        journal = {"identity": self._identity, "sha256": self._hashes}
        write_atomically(self.folder / JOURNAL, json.dumps(journal, indent=1) + "\n")

    def _is_intact(self, name: str) -> bool:
        path = self.path(name)
        try:
            return name in self._hashes and content_sha256(path) == self._hashes[name]
        except (OSError, ValueError):  # it is gone, or has no header
            return False

    def path(self, name: str) -> Path:
        """Where a file lies."""
        return self.folder / name

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """An array that has been made, memory-mapped."""
        array: np.ndarray[Any, Any] = np.load(self.path(name), mmap_mode="r")
        return array

    def sha256(self, name: str) -> str:
        """The hash of a file that has been made."""
        return self._hashes[name]

    def publish(self, target: Path, names: list[str]) -> None:
        """Give the folder its final name, with these files alone; what was there before is replaced."""
        for path in self.folder.iterdir():
            if path.name not in names:
                path.unlink()
        shutil.rmtree(target, ignore_errors=True)
        self.folder.rename(target)
