"""The staging folder of a preparation: its files survive an interruption, and are published all at once."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fairbench.common.coercion import build
from fairbench.common.errors import UsageError
from fairbench.common.files import require_disk_space, write_atomically
from fairbench.common.reading import read_json
from fairbench.data.prepared import MANIFEST, content_sha256, sealed

JOURNAL = "journal.json"
OWN = re.compile(r"(train|val|test)(_labels)?\.npy|tokenizer\.json|\.*(manifest|hashed)\.json(\.\w+\.tmp)?")
"""Names of the files in a prepared folder."""


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a prepared folder of another user, or one with files that no preparation writes."""
    if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise UsageError(
            f"{folder} is another user's; let its owner prepare it and make it readable, or choose another --data-root"
        )
    foreign = sorted(path.name for path in folder.iterdir() if not OWN.fullmatch(path.name)) if folder.exists() else []
    if foreign:
        raise UsageError(
            f"{folder} has files that fairbench did not write ({', '.join(foreign)}) and that would be lost; "
            "move them away, and run the same command again"
        )


class GrowingArray:
    """A .npy file to which rows are appended; use it in a `with` block. The dtype has the byte order.

    The header is rewritten at the end: numpy pads it so that the first axis can grow.
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
        return self

    def __exit__(self, *error: object) -> None:
        """Write the final header and flush everything to the disk."""
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class StagingFolder:
    """A folder in which a dataset is being prepared; files of another identity, the hash of what determines them, go.

    Attributes:
        hashes: the sha256 of each finished file, of a .npy file that of its values.
        reused: files that an interrupted preparation had finished.
    """

    def __init__(self, target: Path, identity: str) -> None:
        self._target, self._identity = target, identity
        self.folder = target.parent / f".{target.name}.part"
        self.reused: list[str] = []
        journal = read_json(self.folder / JOURNAL, lambda value: build(dict[str, dict[str, str]], value, ()))
        self.hashes: dict[str, str] = journal.get(identity, {}) if isinstance(journal, dict) else {}
        if not self.hashes:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)

    def require_disk_space(self, size: int) -> None:
        """Raise `UsageError` if the disk has too little space for files of this total size, existing ones included."""
        missing = size - sum(path.stat().st_size for path in self.folder.iterdir())
        require_disk_space(self._target.parent, missing, f"prepare {self._target.name}")

    def ensure(self, names: list[str], make: Callable[[], None]) -> None:
        """Make files, unless an earlier preparation finished them and they are intact."""
        if all(self._is_intact(name) for name in names):
            self.reused += names
            return
        make()
        self.hashes |= {name: content_sha256(self.path(name)) for name in names}
        write_atomically(self.folder / JOURNAL, json.dumps({self._identity: self.hashes}, indent=1) + "\n")

    def _is_intact(self, name: str) -> bool:
        with suppress(Exception):  # it is missing, or has no header
            return name in self.hashes and content_sha256(self.path(name)) == self.hashes[name]
        return False

    def path(self, name: str) -> Path:
        return self.folder / name

    def array(self, name: str) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] = np.load(self.path(name), mmap_mode="r")
        return array

    def publish(self, names: list[str], facts: Mapping[str, Any]) -> None:
        """Rename the folder, with these files and a manifest of these facts, to the final one, which is replaced."""
        arrays = {name.removesuffix(".npy"): self.array(name) for name in names if name.endswith(".npy")}
        described = {
            name: {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": self.hashes[f"{name}.npy"]}
            for name, array in arrays.items()
        }
        write_atomically(self.path(MANIFEST), sealed({**facts, "arrays": described}))
        for path in self.folder.iterdir():
            if path.name not in (MANIFEST, *names):
                path.unlink()
        shutil.rmtree(self._target, ignore_errors=True)
        self.folder.rename(self._target)
