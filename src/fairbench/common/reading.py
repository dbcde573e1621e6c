"""The one reader of files that another process may have written: it returns their value, or says that they are damaged.

Such a file may be anything: cut off, edited, of another program or another user, a pipe, or larger than the memory.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

ValueT = TypeVar("ValueT")
LARGEST = 1 << 30
"""Bytes of the largest file that is read."""
DEEPEST = 64
"""Levels of lists and tables in each other that JSON may have."""
SHOWN = 300
"""Characters of a reason that are shown."""
ABSENT_OR_ODD = (errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENXIO)
"""The errors of a path with no regular file, which its owner could not make readable either."""


@dataclass(frozen=True)
class Damaged:
    """A file that cannot be used, and why; if it is `locked`, it could not even be read, as one of another user."""

    path: Path
    reason: str
    locked: bool = False

    def text(self, what: str, remedy: str) -> str:
        """A message on a kind of file, as "record", with what to do about wrong content."""
        if self.locked:
            remedy = "is left alone; let its owner make it readable"
            return f"{what} {self.path} cannot be read ({self.reason}) and {remedy}"
        return f"damaged {what} {self.path} ({self.reason}); {remedy}"


def read_text(path: Path) -> str | Damaged | None:
    """The text of a file in UTF-8; None without the file."""
    return read_file(path, bytes.decode)


def read_json(path: Path, interpret: Callable[[Any], ValueT]) -> ValueT | Damaged | None:
    """The value that `interpret` makes of a JSON file, unless it raises ValueError; None without the file."""
    return read_file(path, lambda content: interpret(parse_json(content)))


def read_file(path: Path | str, interpret: Callable[[bytes], ValueT]) -> ValueT | Damaged | None:
    """The value of a regular file; None without it. `interpret` is as in `read_json`, and gets the content."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait for a writer
        try:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode):
                return Damaged(Path(path), "it is not a regular file")
            if state.st_size > LARGEST:
                return Damaged(Path(path), f"it has {state.st_size} bytes, more than {LARGEST}")
            content = os.read(handle, state.st_size + 1)
        finally:
            os.close(handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror or str(error)
        return Damaged(Path(path), reason, locked=error.errno not in ABSENT_OR_ODD)
    try:
        return interpret(content)
    except ValueError as error:
        return Damaged(Path(path), str(error)[:SHOWN])


def parse_json(content: bytes) -> Any:
    """Plain values from JSON in UTF-8; raises ValueError for a number that is not finite, and for deep nesting."""
    import msgspec

    too_deep = ValueError(f"it is nested more than {DEEPEST} levels deep")
    try:
        value = msgspec.json.decode(content)
    except (ValueError, RecursionError):  # json accepts what msgspec rejects, such as a lone surrogate in a path
        try:
            value = json.loads(content.decode(), parse_constant=_refuse, parse_float=_finite)
        except RecursionError:
            raise too_deep from None
    level: list[Any] = [[value]]
    for _ in range(DEEPEST):
        level = _nested(level)
        if not level:
            return value
    raise too_deep


def _nested(containers: list[Any]) -> list[Any]:
    """The lists and tables that stand directly in these."""
    nested = []
    for container in containers:
        members = container.values() if type(container) is dict else container
        for member in members:
            if type(member) is dict or type(member) is list:
                nested.append(member)
    return nested


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if abs(value) == float("inf"):
        _refuse(text)
    return value
