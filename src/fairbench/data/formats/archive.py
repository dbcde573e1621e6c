"""Archives, read in place: nothing is extracted."""

import io
import pickle
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from fairbench.common.errors import UsageError, explained, one_line
from fairbench.data.formats.image_decoding import decode_image
from fairbench.data.formats.raw import ImageSplit, RawImage

ADMITTED: dict[str, Any] = {
    "_reconstruct": np.empty(0).__reduce__()[0],
    "ndarray": np.ndarray,
    "dtype": np.dtype,
}
"""The only names that a pickle may import, and only from numpy. Any other import could run foreign code."""


@dataclass(frozen=True)
class Members:
    """The files in an open archive.

    Attributes:
        path: the archive.
        names: the names of its files.
    """

    path: Path
    names: frozenset[str]
    _read: Callable[[str], bytes]

    def read(self, name: str) -> bytes:
        """The content of a file. Raises `UsageError` if the archive lacks the file, or the file is damaged."""
        if name not in self.names:
            raise UsageError(f"{self.path} has no {name}: it is a different archive, or a different version of it")
        with damage_named(f"{self.path}: {name}"):
            return self._read(name)


@contextmanager
def open_tar(path: Path) -> Iterator[Members]:
    """Open a .tar.gz and yield its files, without links. Raises `UsageError` if the archive is damaged."""
    with damage_named(path):
        tar = tarfile.open(path, "r:gz")  # noqa: SIM115
        files = {member.name: member for member in tar.getmembers() if member.isfile()}

    def read(name: str) -> bytes:
        content = cast(io.BufferedReader, tar.extractfile(files[name]))
        return content.read()

    with tar:
        yield Members(path, frozenset(files), read)


@contextmanager
def open_zip(path: Path) -> Iterator[Members]:
    """Open a .zip and yield its files. Raises `UsageError` if the archive is damaged."""
    with damage_named(path):
        archive = zipfile.ZipFile(path)
    with archive:
        names = frozenset(member.filename for member in archive.infolist() if not member.is_dir())
        yield Members(path, names, archive.read)


def image_split(path: Path, images: Sequence[tuple[str, int]], crop: int = 0, size: int = 0) -> ImageSplit:
    """An official split of images in a .zip.

    Args:
        path: the archive.
        images: the name in the archive and the label of each image.
        crop: see `decode_image`.
        size: see `decode_image`.
    """

    def read() -> Iterator[RawImage]:
        with open_zip(path) as members:
            for name, label in images:
                where = f"{path}: {name}"
                pixels = decode_image(members.read(name), where, crop, size)
                yield RawImage(pixels, label, where)

    return ImageSplit(len(images), read)


def damage_named(where: Path | str) -> AbstractContextManager[None]:
    """Turn an error of any kind into a `UsageError` that names the damaged or encrypted archive."""
    return explained(lambda error: f"{where} is damaged ({one_line(error)}); get it again")


class _ArrayUnpickler(pickle._Unpickler):
    """Reads pickles of plain values and numpy's arrays, with no more memory than their data take."""

    def find_class(self, module: str, name: str) -> Any:
        """The object that a pickle imports. Raises `UnpicklingError` unless it is in `ADMITTED`."""
        if not module.startswith("numpy") or name not in ADMITTED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, but only numpy's arrays are allowed")
        return ADMITTED[name]


def unpickled(data: bytes, where: str) -> Any:
    """The value of a pickle that Python 2 wrote. The pickle may import nothing but numpy's arrays."""
    with damage_named(where), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns of align=0, which is Python 2's False
        return _ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
