"""Files that are written completely or not at all, and the check of free disk space."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from fairbench.common.errors import UsageError
from fairbench.common.formatting import format_bytes

Content = str | bytes | Iterable[str]
"""The content of a file, or its parts."""
Stamp = list[int]
"""The state of a file: size, modification time, change time (which cannot be set back), inode."""
BUFFER = 1 << 20
"""The number of bytes that are collected before they are written. Long files come in many small parts."""


def write_atomically(path: Path, content: Content) -> None:
    """Write a file so that it has either its old or its new content, never a part of it."""
    if isinstance(content, bytes):
        parts: Iterable[str | bytes] = [content]
    elif isinstance(content, str):
        parts = [content]
    else:
        parts = content
    with replacing(path) as file:
        for part in parts:
            if isinstance(part, str):
                part = part.encode(errors="backslashreplace")  # a path that is not UTF-8 has characters without a code
            file.write(part)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces `path` at the end of the block. If anything fails, `path` stays as it is."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb", buffering=BUFFER) as file:  # umask decides who may read it
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if is_full else error.strerror
        raise UsageError(
            f"cannot write {path}: {reason}; everything written before is kept, "
            "free disk space or choose a different folder, and run the same command again"
        ) from error
    finally:
        remove(temporary)  # after the rename it does not exist


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists and this user may remove it."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that a rename survives a loss of power.

    Some file systems, such as those of networks, can do this for files alone.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def require_disk_space(folder: Path, size: int, purpose: str) -> None:
    """Raise `UsageError` if the disk has too little free space.

    Args:
        folder: a folder on the disk, which need not exist yet.
        size: the number of bytes that are needed.
        purpose: a verb and an object, for the error.
    """
    absolute = folder.absolute()
    existing = next(path for path in (absolute, *absolute.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < size:
        raise UsageError(
            f"cannot {purpose}: it needs {format_bytes(size)} in {folder}, but only {format_bytes(free)} are free; "
            "free some space or choose another --data-root"
        )


def stamp(state: os.stat_result) -> Stamp:
    """The stamp of a file, from its `os.stat` result."""
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
