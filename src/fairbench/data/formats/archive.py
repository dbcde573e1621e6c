"""Archives, read in place: nothing is extracted, and archives with suspicious members are refused."""

import io
import pickle
import stat
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast

import numpy as np

from fairbench.common.errors import UsageError

DAMAGE = (EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, RuntimeError)
"""Errors on reading a damaged or encrypted archive, or a file of a different format."""
RECONSTRUCT = np.empty(0).__reduce__()[0]
ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}
"""The only globals that a pickle may name."""


@dataclass(frozen=True)
class Members:
    """The files in an open archive.

    Attributes:
        path: of the archive.
        names: of its files.
    """

    path: Path
    names: frozenset[str]
    _read: Callable[[str], bytes]

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            UsageError: there is no such file, or it is damaged.
        """
        if name not in self.names:
            raise UsageError(f"{self.path} has no {name}: it is a different archive, or a different version of it")
        with damage_named(self.path):
            return self._read(name)


@contextmanager
def open_tar(path: Path) -> Iterator[Members]:
    """Open a .tar.gz.

    Raises:
        UsageError: it is damaged, or a member is a link or a device, or lies outside the archive.
    """
    with damage_named(path):
        tar = tarfile.open(path, "r:gz")  # noqa: SIM115
    with tar:
        with damage_named(path):
            members = tar.getmembers()
        for member in members:
            _refuse_escape(path, member.name, plain=member.isfile() or member.isdir())
        files = {member.name: member for member in members if member.isfile()}
        yield Members(path, frozenset(files), lambda name: cast(io.BufferedReader, tar.extractfile(files[name])).read())


@contextmanager
def open_zip(path: Path) -> Iterator[Members]:
    """Open a .zip.

    Raises:
        UsageError: it is damaged, or a member is a link, or lies outside the archive.
    """
    with damage_named(path):
        archive = zipfile.ZipFile(path)
    with archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            _refuse_escape(path, member.filename, plain=kind in (0, stat.S_IFREG, stat.S_IFDIR))
        names = (member.filename for member in archive.infolist() if not member.is_dir())
        yield Members(path, frozenset(names), archive.read)


def _refuse_escape(path: Path, name: str, plain: bool) -> None:
    unix, windows = PurePosixPath(name), PureWindowsPath(name)
    if unix.is_absolute() or windows.anchor or ".." in (*unix.parts, *windows.parts) or not plain:
        raise UsageError(
            f"{path} is refused: its member {name!r} is a link or a device, or lies outside the archive. "
            "No archive of this dataset has such a member; get it from its authors"
        )


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn errors on reading a damaged archive into one that names it."""
    try:
        yield
    except DAMAGE as error:
        raise UsageError(f"{path} is damaged ({type(error).__name__}: {error}); get it again") from error


class _ArrayUnpickler(pickle.Unpickler):
    """Reads pickles of plain values and numpy's arrays, and refuses all others."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, but only numpy's arrays are allowed")
        return ADMITTED[module, name]


def unpickled(data: bytes, where: str) -> Any:
    """The value of a pickle that Python 2 wrote.

    Args:
        data: the pickle.
        where: its name in errors.

    Raises:
        UsageError: it is damaged, or names anything but numpy's arrays.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of align=0, which is Python 2's False
            return _ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    except Exception as error:  # a damaged pickle may raise anything
        raise UsageError(f"{where} is refused ({type(error).__name__}: {error}); get it from its authors") from error
