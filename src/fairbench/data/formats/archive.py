"""Archives, read in place: nothing is extracted, and archives with suspicious members are refused."""

import gzip
import io
import pickle
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from fairbench.common.errors import UsageError, one_line
from fairbench.common.formatting import format_bytes
from fairbench.data.formats.image_decoding import decode_image
from fairbench.data.formats.raw import ImageSplit, RawImage

MEMBER = 1 << 24
"""Bytes at most of a member of a zip: an image or a list."""
CONTENT = 1 << 28
"""Bytes at most of the content of a tar; CIFAR-100's is the only one, with 186 MB."""


def _empty(*shape: object) -> NDArray[Any]:
    """An empty array, which a pickle then fills with the data that it has; a stated shape would take memory."""
    return np.empty(0)


ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _empty,
    ("numpy._core.multiarray", "_reconstruct"): _empty,
    ("numpy", "ndarray"): _empty,
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
            UsageError: there is no such file, or it is damaged or too large.
        """
        if name not in self.names:
            raise UsageError(f"{self.path} has no {name}: it is a different archive, or a different version of it")
        with damage_named(f"{self.path}: {name}"):
            return self._read(name)


class _BoundedGzip(gzip.GzipFile):
    """Reads the first `CONTENT` bytes: a header of a tar may state any size, and zeros compress to nothing."""

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        self._limit(self.tell() + (CONTENT if size is None or size < 0 else size))
        return super().read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position from the start."""
        self._limit(offset)
        return super().seek(offset, whence)

    def _limit(self, position: int) -> None:
        if position > CONTENT:
            raise tarfile.ReadError(f"it states more than {format_bytes(CONTENT)} of content")


@contextmanager
def open_tar(path: Path) -> Iterator[Members]:
    """Open a .tar.gz.

    Raises:
        UsageError: it is damaged, or a member is a link or a device, or lies outside the archive.
    """
    with _BoundedGzip(path) as content:
        with damage_named(path):
            tar = tarfile.open(fileobj=content, mode="r:")  # noqa: SIM115
            members = tar.getmembers()
        for member in members:
            _refuse_escape(path, member.name, (member.isfile() and not member.issparse()) or member.isdir())
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
        yield Members(path, frozenset(names), partial(_read_bounded, archive))


def image_split(path: Path, images: Sequence[tuple[str, int]], crop: int = 0, size: int = 0) -> ImageSplit:
    """An official split of images in a .zip, by name and label; see `decode_image` for `crop` and `size`."""

    def read() -> Iterator[RawImage]:
        with open_zip(path) as members:
            for name, label in images:
                where = f"{path}: {name}"
                yield RawImage(decode_image(members.read(name), where, crop, size), label, where)

    return ImageSplit(len(images), read)


def _read_bounded(archive: zipfile.ZipFile, name: str) -> bytes:
    member = archive.getinfo(name)
    if member.file_size > MEMBER:
        size, most = format_bytes(member.file_size), format_bytes(MEMBER)
        raise zipfile.BadZipFile(f"it states {size}; no member has more than {most}")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile("its compression, which is not deflate, cannot be read in parts")
    with archive.open(member) as file:
        data = file.read(member.file_size + 1)  # without a number, zlib returns all that the data decompress to
        if len(data) != member.file_size:
            raise zipfile.BadZipFile(f"it states {member.file_size:,} bytes and has {len(data):,}")
        return data


def _refuse_escape(path: Path, name: str, plain: bool) -> None:
    unix, windows = PurePosixPath(name), PureWindowsPath(name)
    if unix.is_absolute() or windows.anchor or ".." in (*unix.parts, *windows.parts) or not plain:
        raise UsageError(
            f"{path} is refused: its member {name!r} is a link, a device or sparse, or lies outside the archive. "
            "No archive of this dataset has such a member; get it from its authors"
        )


@contextmanager
def damage_named(where: Path | str) -> Iterator[None]:
    """Turn errors on reading a damaged or encrypted archive into one that names it."""
    try:
        yield
    except Exception as error:  # the readers of damaged archives raise whatever they come upon
        raise UsageError(f"{where} is damaged ({one_line(error)}); get it again") from error


class _ArrayUnpickler(pickle._Unpickler):
    """Reads pickles of plain values and numpy's arrays, and refuses all others.

    The unpickler in C takes the memory that an index states; that in Python only what the data take, except for one
    opcode, which Python 2 does not write.
    """

    dispatch: ClassVar = {k: v for k, v in pickle._Unpickler.dispatch.items() if k != pickle.BYTEARRAY8[0]}

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
        raise UsageError(f"{where} is refused ({one_line(error)}); get it from its authors") from error
