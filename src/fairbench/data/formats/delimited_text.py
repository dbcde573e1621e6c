"""Text files with a separator between texts, read as a stream."""

import codecs
from collections.abc import Iterator
from pathlib import Path

SEPARATOR = b"<|endoftext|>"
CHUNK = 1 << 20


def split_texts(path: Path, longest: int) -> Iterator[bytes]:
    """The texts of a file without surrounding white space, empty ones included.

    A text longer than `longest` bytes is cut after its last line end before that.
    """
    rest = b""
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        while chunk := file.read(CHUNK):
            *texts, rest = (rest + chunk).split(SEPARATOR)
            for text in texts:
                yield from _pieces(text, longest)
            # The next chunk may begin with the rest of a separator, so the last text may be longer.
            *pieces, rest = _cut(rest, longest, longest + len(SEPARATOR))
            for piece in pieces:
                yield piece.strip()
    if rest.strip():
        yield from _pieces(rest, longest)


def _pieces(text: bytes, longest: int) -> Iterator[bytes]:
    return (piece.strip() for piece in _cut(text, longest, longest))


def _cut(text: bytes, longest: int, allowed: int) -> list[bytes]:
    """The text in pieces of at most `longest` bytes; the last one may have `allowed`."""
    pieces = []
    while len(text) > allowed:
        end = text.rfind(b"\n", 0, longest) + 1 or _character_end(text, longest)
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text]


def _character_end(text: bytes, end: int) -> int:
    """The last end of a UTF-8 character at or before `end`."""
    return next((i for i in range(end, end - 4, -1) if text[i] & 0xC0 != 0x80), end)
