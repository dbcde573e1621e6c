"""Text files: lists with an entry in each line, and texts with a separator between them, read as a stream."""

import codecs
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from fairbench.common.errors import UsageError

SEPARATOR = b"<|endoftext|>"
CHUNK = 1 << 20
ValueT = TypeVar("ValueT")


def decode_utf8(data: bytes, where: str) -> str:
    """Decode a text with or without a byte order mark. Raises `UsageError` if the text is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UsageError(f"{where} is UTF-16, expected UTF-8; save it as UTF-8") from error
        line = data.count(b"\n", 0, error.start) + 1
        wrong = data[error.start : error.start + 4]
        raise UsageError(f"{where}, line {line}: {wrong!r} is not UTF-8; save the file as UTF-8") from error


def read_list(data: bytes, where: str, parse: Callable[[str], tuple[str, ValueT]], form: str) -> dict[str, ValueT]:
    """Read a list that has a name and a value in each line. Empty lines are allowed.

    Args:
        data: the content of the file.
        where: the file, for errors.
        parse: returns the name and the value of a line; raises LookupError or ValueError for a line of another form.
        form: the form of a line in words, for errors.

    Returns:
        The value of each name.

    Raises:
        UsageError: a line has another form, or two lines have the same name.
    """
    entries: dict[str, ValueT] = {}
    line_of_name: dict[str, int] = {}
    for number, line in enumerate(decode_utf8(data, where).splitlines(), 1):
        if not line.strip():
            continue
        try:
            name, value = parse(line)
        except (LookupError, ValueError) as error:
            raise UsageError(f"{where}, line {number}: {line[:80]!r} is not {form}") from error
        if name in entries:
            earlier = line_of_name[name]
            raise UsageError(f"{where}, line {number}: {name!r} is in line {earlier} already; keep one of the two")
        entries[name] = value
        line_of_name[name] = number
    return entries


def split_texts(path: Path, longest: int) -> Iterator[bytes]:
    """The texts of a file, without white space around them. Empty texts are included.

    Args:
        path: the file, with `SEPARATOR` between texts.
        longest: the largest number of bytes of a text; a longer one is cut, see `cut_text`.

    Raises:
        UsageError: a text is not UTF-8.
    """
    for number, text in enumerate(_separated(path, longest), 1):
        decode_utf8(text, f"{path}: text {number}")
        yield text


def _separated(path: Path, longest: int) -> Iterator[bytes]:
    """The texts of a file, read in chunks and cut to at most `longest` bytes."""
    rest = b""
    with path.open("rb") as file:
        # Skip a byte order mark.
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        while chunk := file.read(CHUNK):
            *texts, rest = (rest + chunk).split(SEPARATOR)
            for text in texts:
                yield from cut_text(text, longest)
            # A separator may be cut by the end of the chunk: the last piece keeps room for the beginning of one.
            *pieces, rest = _cut(rest, longest, longest + len(SEPARATOR))
            for piece in pieces:
                yield piece.strip()
    if rest.strip():
        yield from cut_text(rest, longest)


def cut_text(text: bytes, longest: int) -> Iterator[bytes]:
    """Cut a text into pieces of at most `longest` bytes, without white space around them.

    A piece ends at its last line end, or else at the end of a character.
    """
    return (piece.strip() for piece in _cut(text, longest, longest))


def _cut(text: bytes, longest: int, allowed: int) -> list[bytes]:
    """Cut a text into pieces of at most `longest` bytes. Only the last piece may have up to `allowed` bytes."""
    pieces = []
    while len(text) > allowed:
        end = text.rfind(b"\n", 0, longest) + 1
        if end == 0:
            end = _character_start(text, longest)
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text]


def _character_start(text: bytes, position: int) -> int:
    """The beginning of the character at a position of a UTF-8 text; the position itself if the text is not UTF-8."""
    for start in range(position, position - 4, -1):  # a UTF-8 character has at most four bytes
        is_continuation = text[start] & 0xC0 == 0x80
        if not is_continuation:
            return start
    return position
