"""The only reader of files that another process may have written. It returns the value of a file, or its damage.

Such a file may be cut off, edited, from another program or another user, a pipe, or larger than the memory.
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
"""The number of bytes of the largest file that is read."""
DEEPEST = 64
"""The largest number of levels of nested lists and tables in JSON."""
SHOWN = 300
"""The number of characters of a reason that are shown."""
ABSENT_OR_ODD = (errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENXIO)
"""The errors of a path without a regular file. Here the permissions are not the problem."""


@dataclass(frozen=True)
class Damaged:
    """A file that cannot be used.

    Attributes:
        path: the file.
        reason: the damage, in words.
        locked: whether the file could not be read at all, such as one of another user.
    """

    path: Path
    reason: str
    locked: bool = False

    def text(self, what: str, remedy: str) -> str:
        """The message on a damaged file.

        Args:
            what: the kind of file, such as "record".
            remedy: what to do about wrong content.
        """
        if self.locked:
            remedy = "is left alone; let its owner make it readable"
            return f"{what} {self.path} cannot be read ({self.reason}) and {remedy}"
        return f"damaged {what} {self.path} ({self.reason}); {remedy}"


def read_text(path: Path) -> str | Damaged | None:
    """The text of a file in UTF-8; None if there is no file."""
    return read_file(path, bytes.decode)


def read_json(path: Path, interpret: Callable[[Any], ValueT]) -> ValueT | Damaged | None:
    """The value of a JSON file; None if there is no file.

    Args:
        path: the file.
        interpret: makes the value from the plain values of JSON. If it raises ValueError, the file is damaged.
    """
    return read_file(path, lambda content: interpret(parse_json(content)))


def read_file(path: Path | str, interpret: Callable[[bytes], ValueT]) -> ValueT | Damaged | None:
    """The value of a file; None if there is no file.

    Args:
        path: the file.
        interpret: makes the value from the content. If it raises ValueError, the file is damaged.
    """
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
    """The plain values of JSON in UTF-8.

    Raises:
        ValueError: the content is not JSON, a number is not finite, or the nesting is too deep.
    """
    import msgspec

    too_deep = ValueError(f"it is nested more than {DEEPEST} levels deep")
    try:
        value = msgspec.json.decode(content)
    except (ValueError, RecursionError):  # json accepts what msgspec rejects, such as a lone surrogate in a path
        try:
            value = json.loads(content.decode(), parse_constant=_refuse, parse_float=_finite)
        except RecursionError:
            raise too_deep from None
    level: list[Any] = [[value]]  # the lists and tables of one level of the nesting; above the value, a list around it
    for _ in range(DEEPEST):
        level = _nested(level)
        if not level:
            return value
    raise too_deep


def _nested(containers: list[Any]) -> list[Any]:
    """The lists and tables that are members of some lists and tables."""
    nested = []
    for container in containers:
        members = container.values() if type(container) is dict else container
        for member in members:
            if type(member) is dict or type(member) is list:
                nested.append(member)
    return nested


def _refuse(constant: str) -> NoReturn:
    """Raise ValueError for a constant such as NaN, which JSON does not have."""
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    """A number of JSON. Raises ValueError if it is too large for a float."""
    value = float(text)
    if abs(value) == float("inf"):
        _refuse(text)
    return value
