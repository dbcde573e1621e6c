"""Files that are written completely or not at all, and free disk space."""

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
"""Bytes of a file that are collected before they are written: long files come in many small parts."""


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
    """A file that replaces `path` once it is complete: temporary file, fsync, rename. `path` stays if that fails."""
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
        remove(temporary)  # absent after the rename


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists and this user may remove it."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def require_disk_space(folder: Path, size: int, purpose: str) -> None:
    """Raise `UsageError` if the disk has too little free space."""
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
