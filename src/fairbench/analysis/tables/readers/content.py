"""The content of a source of a table, before its form is known."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fairbench.analysis.tables.readers.binary import PICKLE, ZIP, arrow_table, refuse, unpacked
from fairbench.common.errors import UsageError, nearest

UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF_8_MARK = "\ufeff"


@dataclass(frozen=True)
class Content:
    """The text of a file, or values in memory.

    Attributes:
        name: the name of the source in messages.
        text: the text of a file, without the mark of its encoding; None where the source is values in memory.
        values: the values in memory; None for a file.
        notes: messages for the user on how the text was decoded.
        metric: the metric that the user asks for; empty for the only one.
    """

    name: str
    text: str | None = None
    values: Any = None
    notes: tuple[str, ...] = ()
    metric: str = ""

    def lines(self) -> list[str]:
        """The lines of the text with their line ends.

        An empty line replaces the first line of Excel, which names the separator.
        """
        lines = (self.text or "").splitlines(keepends=True)
        if lines and lines[0].startswith("sep="):
            lines[0] = "\n"
        return lines


class TextRow(NamedTuple):
    """The location of a row in its source, and the texts of its cells in the order of the columns."""

    location: str
    cells: Sequence[str]


@dataclass(frozen=True)
class TextRows:
    """The rows of a table, of which the first holds the names of the columns.

    The notes are messages for the user.
    """

    name: str
    rows: Sequence[TextRow]
    notes: tuple[str, ...] = ()


def opened(source: Any) -> Content:
    """The content of a path, of "-" for standard input, of an open file, or of values in memory.

    A content is opened already.

    Raises:
        UsageError: it cannot be read, or is not text.
    """
    if isinstance(source, Content):
        return source
    if isinstance(source, str) and source == "-":
        return _decoded("standard input", sys.stdin.buffer.read())
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        try:
            return _decoded(path.name, path.read_bytes())
        except FileNotFoundError:
            advice = nearest_path(path) or "; give a table in CSV or JSON"
            raise UsageError(f"there is no file {os.fspath(source)} in {Path.cwd()}{advice}") from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{os.fspath(source)} cannot be read: {error}; give a table in CSV or JSON") from None
    if hasattr(source, "read"):
        path = Path(str(getattr(source, "name", "the open file")))
        return _decoded(path.name, source.read())
    return Content("the table", values=source)


def is_read_once(source: Any) -> bool:
    """Whether a source has nothing more when it has been read: standard input, or an open file."""
    return (isinstance(source, str) and source == "-") or hasattr(source, "read")


def nearest_path(path: Path) -> str:
    """The end of a message on a path that does not exist: a question with the nearest name that does, or empty."""
    missing = path
    while missing.parent != missing and not missing.parent.exists():
        missing = missing.parent
    if not missing.parent.is_dir():
        return ""
    return nearest(missing.name, [path.name for path in missing.parent.iterdir()])


def _decoded(name: str, content: str | bytes) -> Content:
    """Decode UTF-8, UTF-16 with a byte order mark, or else Windows-1252. A note tells the user of the last."""
    if isinstance(content, str):
        return _of_text(name, content)
    name, content = unpacked(name, content)
    table = arrow_table(name, content)
    if table is not None:
        return Content(name, values=table)
    if content.startswith(UTF_16_MARKS):
        return _of_text(name, content.decode("utf-16", "replace"))
    if b"\0" in content or content.startswith((ZIP, *PICKLE)):
        refuse(name, content)
    try:
        return _of_text(name, content.decode())
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
        return _of_text(name, text, f"{name} is not UTF-8 and was read as Windows-1252")


def _of_text(name: str, text: str, *notes: str) -> Content:
    """The content of a file, without the byte order mark that its text may begin with."""
    return Content(name, text=text.lstrip(UTF_8_MARK), notes=notes)
