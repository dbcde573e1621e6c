"""Text files in which a separator tells texts apart, read as a stream."""

import codecs
from collections.abc import Iterator
from pathlib import Path

SEPARATOR = b"<|endoftext|>"
CHUNK = 1 << 20


def split_texts(path: Path, longest: int) -> Iterator[bytes]:
    """The texts of a file, without the white space around them; empty ones are given too.

    Args:
        path: the file.
        longest: bytes of the longest text; a longer one is cut after its last line end before that.
    """
    rest = b""
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        while chunk := file.read(CHUNK):
            *texts, rest = (rest + chunk).split(SEPARATOR)
            for text in texts:
                yield from _pieces(text, longest)
            # What follows may begin with the rest of a separator: it is left whole.
            *pieces, rest = _cut(rest, longest, longest + len(SEPARATOR))
            for piece in pieces:
                yield piece.strip()
    if rest.strip():
        yield from _pieces(rest, longest)


def _pieces(text: bytes, longest: int) -> Iterator[bytes]:
    return (piece.strip() for piece in _cut(text, longest, longest))


def _cut(text: bytes, longest: int, allowed: int) -> list[bytes]:
    """The text in pieces of at most `longest` bytes, but for the last one, which may have `allowed`."""
    pieces = []
    while len(text) > allowed:
        end = text.rfind(b"\n", 0, longest) + 1 or _character_end(text, longest)
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text]


def _character_end(text: bytes, end: int) -> int:
    """The last end of a UTF-8 character at or before `end`."""
    return next((i for i in range(end, end - 4, -1) if text[i] & 0xC0 != 0x80), end)
