"""The staging folder of a preparation. Its files survive an interruption, and are published all at once."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairbench.common.coercion import build
from fairbench.common.files import require_disk_space, write_atomically
from fairbench.common.reading import read_json
from fairbench.data.prepared import MANIFEST, content_sha256, sealed

JOURNAL = "journal.json"


class GrowingArray:
    """A .npy file to which rows are appended, for use in a `with` block.

    The header is rewritten at the end, with the number of rows. numpy pads the header so that this number fits in.

    Args:
        path: the file.
        dtype: the type of a value, with its byte order.
        row: the shape of a row.
    """

    def __init__(self, path: Path, dtype: str, row: tuple[int, ...] = ()) -> None:
        self._dtype = np.dtype(dtype)
        self._row = row
        self.count = 0
        self._file = path.open("w+b")
        self._write_header()

    def _write_header(self) -> None:
        """Write the header for the current number of rows."""
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self.count, *self._row)}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, rows: np.ndarray[Any, Any]) -> None:
        """Append rows, shape (N, *row)."""
        self._file.write(np.ascontiguousarray(rows, self._dtype).data)
        self.count += len(rows)

    def __enter__(self) -> "GrowingArray":
        return self

    def __exit__(self, *error: object) -> None:
        """Write the final header and flush everything to the disk."""
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class StagingFolder:
    """A folder in which a dataset is being prepared.

    Files that an interrupted preparation left are used again if it had the same identity, and are deleted otherwise.

    Args:
        target: the folder to which the finished files are published.
        identity: a hash of everything that determines the files.

    Attributes:
        hashes: the sha256 of each finished file. For a .npy file, the sha256 of its values alone.
        reused: the names of the files that an interrupted preparation had finished.
    """

    def __init__(self, target: Path, identity: str) -> None:
        self._target = target
        self._identity = identity
        self.folder = target.parent / f".{target.name}.part"
        self.reused: list[str] = []
        self.hashes = self._recorded_hashes()
        if not self.hashes:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)

    def _recorded_hashes(self) -> dict[str, str]:
        """The hashes of the files that an interrupted preparation with the same identity had finished."""
        journal = read_json(self.folder / JOURNAL, lambda value: build(dict[str, dict[str, str]], value, ()))
        hashes: dict[str, str] = {}
        if isinstance(journal, dict):  # otherwise it is missing or damaged
            hashes = journal.get(self._identity, {})
        return hashes

    def require_disk_space(self, size: int) -> None:
        """Raise `UsageError` if the disk has too little space for files of a total size, existing files included."""
        existing = sum(path.stat().st_size for path in self.folder.iterdir())
        require_disk_space(self._target.parent, size - existing, f"prepare {self._target.name}")

    def ensure(self, names: list[str], make: Callable[[], None]) -> None:
        """Make files, unless an interrupted preparation finished them and they are intact.

        Args:
            names: the names of the files.
            make: writes all of them.
        """
        if all(self._is_intact(name) for name in names):
            self.reused += names
            return
        make()
        for name in names:
            self.hashes[name] = content_sha256(self.path(name))
        journal = json.dumps({self._identity: self.hashes}, indent=1)
        write_atomically(self.folder / JOURNAL, journal + "\n")

    def _is_intact(self, name: str) -> bool:
        """Whether a file is finished, and its content has not changed since."""
        if name not in self.hashes:
            return False
        try:
            return content_sha256(self.path(name)) == self.hashes[name]
        except Exception:  # the file is missing, or has no header
            return False

    def path(self, name: str) -> Path:
        """The path of a file in the staging folder."""
        return self.folder / name

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """The array of a finished .npy file, memory-mapped and read-only."""
        array: np.ndarray[Any, Any] = np.load(self.path(name), mmap_mode="r")
        return array

    def publish(self, names: list[str], facts: Mapping[str, Any]) -> None:
        """Replace the target folder by the staging folder.

        Args:
            names: the files to publish; all other files are deleted.
            facts: the facts for the manifest, without the arrays.
        """
        arrays = {}
        for name in names:
            if name.endswith(".npy"):
                arrays[name.removesuffix(".npy")] = self._description(name)
        write_atomically(self.path(MANIFEST), sealed({**facts, "arrays": arrays}))
        for path in self.folder.iterdir():
            if path.name not in (MANIFEST, *names):
                path.unlink()
        shutil.rmtree(self._target, ignore_errors=True)
        self.folder.rename(self._target)

    def _description(self, name: str) -> dict[str, Any]:
        """The entry of an array in the manifest."""
        array = self.array(name)
        return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": self.hashes[name]}
