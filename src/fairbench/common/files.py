"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fairbench.common.errors import UsageError

Content = str | bytes | Iterable[str]
"""Of a file; in parts if it is long."""
BUFFER = 1 << 20
"""Bytes of a file that are written at once: long ones come in many small parts."""


def write_atomically(path: Path, content: Content) -> None:
    """Write a file so that it has its old or its new content, never a part.

    Raises:
        UsageError: the disk is full or the folder cannot be written; the old content is still there.
    """
    with replacing(path) as file:
        for part in [content] if isinstance(content, str | bytes) else content:
            file.write(part.encode() if isinstance(part, str) else part)


def write_files(folder: Path, contents: Mapping[str, Content]) -> None:
    """Write files atomically by their names in a folder, one after the other."""
    for name, content in contents.items():
        write_atomically(folder / name, content)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of another one once it is complete: temporary file, fsync, rename.

    Raises:
        UsageError: the disk is full or the folder cannot be written; the old content is still there.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb", buffering=BUFFER) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
        raise UsageError(
            f"cannot write {path}: {reason}; everything written before is kept, "
            "make room or choose another folder and run the same command again"
        ) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)  # gone if it has taken its place


def _sync_folder(folder: Path) -> None:
    """Make a rename in the folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
