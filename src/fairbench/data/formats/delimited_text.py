"""Text files: lists with an entry per line, and texts with a separator between them, read as a stream."""

import codecs
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from fairbench.common.errors import UsageError

SEPARATOR = b"<|endoftext|>"
CHUNK = 1 << 20
ValueT = TypeVar("ValueT")


def decode_utf8(data: bytes, where: str) -> str:
    """Decode a text with or without a byte order mark; raises `UsageError` if it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UsageError(f"{where} is UTF-16, expected UTF-8; save it as UTF-8") from error
        line = data.count(b"\n", 0, error.start) + 1
        wrong = data[error.start : error.start + 4]
        raise UsageError(f"{where}, line {line}: {wrong!r} is not UTF-8; save the file as UTF-8") from error


def read_list(data: bytes, where: str, parse: Callable[[str], tuple[str, ValueT]], form: str) -> dict[str, ValueT]:
    """The entries of a list, one per line; empty lines are allowed, and no name may be there twice.

    Args:
        data: the content of the file.
        where: the file, for errors.
        parse: returns name and value of a line; raises LookupError or ValueError for a line of another form.
        form: the form of a line in words, for errors.

    Returns:
        The value of each name.

    Raises:
        UsageError: a line has another form, or a name is there twice.
    """
    entries: dict[str, ValueT] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(decode_utf8(data, where).splitlines(), 1):
        if not line.strip():
            continue
        try:
            name, value = parse(line)
        except (LookupError, ValueError) as error:
            raise UsageError(f"{where}, line {number}: {line[:80]!r} is not {form}") from error
        if name in entries:
            raise UsageError(f"{where}, line {number}: {name!r} is in line {lines[name]} already; keep one of the two")
        entries[name] = value
        lines[name] = number
    return entries


def split_texts(path: Path, longest: int) -> Iterator[bytes]:
    """The texts of a file without surrounding white space, empty ones included; each must be UTF-8.

    A text longer than `longest` bytes is cut after its last line end before that.
    """
    for number, text in enumerate(_separated(path, longest), 1):
        decode_utf8(text, f"{path}: text {number}")
        yield text


def _separated(path: Path, longest: int) -> Iterator[bytes]:
    rest = b""
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        while chunk := file.read(CHUNK):
            *texts, rest = (rest + chunk).split(SEPARATOR)
            for text in texts:
                yield from cut_text(text, longest)
            # The next chunk may begin with the rest of a separator, so the last text may be longer.
            *pieces, rest = _cut(rest, longest, longest + len(SEPARATOR))
            for piece in pieces:
                yield piece.strip()
    if rest.strip():
        yield from cut_text(rest, longest)


def cut_text(text: bytes, longest: int) -> Iterator[bytes]:
    """The text in pieces of at most `longest` bytes, each cut after its last line end, without white space around."""
    return (piece.strip() for piece in _cut(text, longest, longest))


def _cut(text: bytes, longest: int, allowed: int) -> list[bytes]:
    """The text in pieces of at most `longest` bytes; the last one may have `allowed`."""
    pieces = []
    while len(text) > allowed:
        end = text.rfind(b"\n", 0, longest) + 1
        if end == 0:
            end = _character_start(text, longest)
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text]


def _character_start(text: bytes, position: int) -> int:
    """Where the character at a position of a UTF-8 text begins; the position itself if the text is not UTF-8."""
    for start in range(position, position - 4, -1):  # a UTF-8 character has at most four bytes
        is_continuation = text[start] & 0xC0 == 0x80
        if not is_continuation:
            return start
    return position
