"""The rows in a file of a training program: JSON lines, a CSV file, TensorBoard's events, or W&B's offline files."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairbench.common.installation import how_to_install

Row = tuple[str, Mapping[str, Any]]
"""Where something was reported, and the values by their names in the file."""
WANDB_HEADER = 7
"""Bytes of a file of W&B before its first block."""
BLOCK = 32_768
"""Bytes of a block of a file of W&B."""
PIECE_HEADER = 7
"""Bytes before each piece of a record: a checksum of 4, a length of 2, and a kind of 1."""
PADDING = 0
WHOLE = 1
LAST = 4
"""Kinds of pieces; a record is whole, or ends with a last one."""


class WrongResults(Exception):
    """What a program reported is no result; the message names file, line and the way out."""


def rows_of_attempts(
    file: Path, folder: Path, attempts: Sequence[Mapping[str, int]], ended: bool
) -> list[Iterable[Row]]:
    """The rows of a file in each attempt; one that was killed may have left half a line.

    Args:
        attempts: the sizes of the files when each attempt began.
        ended: whether the program has ended; while it runs, the last line may be half a line.
    """
    name = str(file.relative_to(folder))
    parts: list[Iterable[Row]]
    if file.suffix == ".wandb" or "tfevents" in file.name:  # such a file is of one attempt
        later_attempts = sum(name in sizes for sizes in attempts)
        rows = _wandb(file) if file.suffix == ".wandb" else _tensorboard(file)
        parts = [rows, *_nothing(later_attempts)]
    else:
        parts = _appended(name, file, attempts, ended)
    earlier_attempts = len(attempts) - len(parts)
    return [*_nothing(earlier_attempts), *parts]


def _nothing(attempts: int) -> list[Iterable[Row]]:
    """No rows in each of some attempts."""
    return [() for _ in range(attempts)]


def _appended(name: str, file: Path, attempts: Sequence[Mapping[str, int]], ended: bool) -> list[Iterable[Row]]:
    """The rows of a file of text to which each attempt appends."""
    content = file.read_bytes()
    sizes = [of_attempt.get(name, 0) for of_attempt in attempts]
    begins = [size for size in sizes if size <= len(content)] or [0]
    names = ""
    if file.suffix == ".csv":
        names = content.partition(b"\n")[0].decode(errors="replace")
    parts: list[Iterable[Row]] = []
    first_line = 1
    for begin, end in pairwise([*begins, len(content)]):
        text = content[begin:end].decode(errors="replace")
        if end < len(content) or not ended:
            whole_lines = text.rfind("\n") + 1
            text = text[:whole_lines]
        parts.append(_csv(name, text, first_line, names) if names else _json_lines(name, text, first_line))
        first_line += content[begin:end].count(b"\n")
    return parts


def _json_lines(name: str, text: str, first: int) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), first):
        where = f"{name}, line {number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise WrongResults(
                f"{where} is no whole line of JSON ({error}): {line[:80]!r}; write it at once"
            ) from error
        if not isinstance(row, dict):
            raise WrongResults(f'{where} must be as {{"step": 10, "val/loss": 1.5}}, got {line[:80]!r}')
        yield where, row


def _csv(name: str, text: str, first: int, names: str) -> Iterator[Row]:
    """Rows by the names in the first line of the file; an attempt that appends may write these again."""
    header = next(csv.reader([names]))
    for number, row in enumerate(csv.reader(text.splitlines()), first):
        if row and row != header:
            if len(row) != len(header):
                raise WrongResults(f"{name}, line {number} has {len(row)} values, the first line {len(header)} names")
            yield f"{name}, line {number}", dict(zip(header, row, strict=True))


def _tensorboard(file: Path) -> Iterator[Row]:
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    except ImportError:
        raise WrongResults(f"{file.name} needs tensorboard: {how_to_install('dev')}") from None
    by_step: dict[int, dict[str, Any]] = {}
    for event in EventFileLoader(str(file)).Load():
        for value in event.summary.value:
            row = by_step.setdefault(event.step, {"step": event.step})
            row[value.tag] = value.tensor.float_val[0] if value.tensor.float_val else value.simple_value
    for step in sorted(by_step):
        yield f"{file.name}, step {step}", by_step[step]


def _wandb(file: Path) -> Iterator[Row]:
    try:
        from wandb.proto.wandb_internal_pb2 import Record
    except ImportError:
        raise WrongResults(f"{file.name} needs wandb: pip install wandb") from None
    blocks = file.read_bytes()[WANDB_HEADER:]
    for number, content in enumerate(_log_records(blocks, WANDB_HEADER), 1):
        record = Record()
        record.ParseFromString(content)
        if record.WhichOneof("record_type") == "history":
            row = {}
            for item in record.history.item:
                key = item.key or "/".join(item.nested_key)
                row[key] = json.loads(item.value_json)
            yield f"{file.name}, record {number}", {"step": row.get("_step"), **row}


def _log_records(content: bytes, start: int) -> Iterator[bytes]:
    """The records in a log of LevelDB's form, in which wandb writes: blocks of 32 KiB, a record in one or more pieces.

    Each piece has a checksum of 4 bytes, a length of 2, and a kind of 1: whole, first, middle or last.
    """
    offset = 0
    pieces: list[bytes] = []
    while offset + PIECE_HEADER <= len(content):
        left_in_block = BLOCK - (start + offset) % BLOCK
        length = int.from_bytes(content[offset + 4 : offset + 6], "little")
        kind = content[offset + 6]
        if left_in_block < PIECE_HEADER or kind == PADDING:
            offset += left_in_block
            continue
        begin = offset + PIECE_HEADER
        end = begin + length
        pieces.append(content[begin:end])
        offset = end
        if kind in (WHOLE, LAST):
            yield b"".join(pieces)
            pieces.clear()
