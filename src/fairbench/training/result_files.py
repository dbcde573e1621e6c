"""The rows in a file of a training program: JSON lines, a CSV file, TensorBoard's events, or W&B's offline files."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairbench.common.installation import how_to_install

Row = tuple[str, Mapping[str, Any]]
"""The file and the line of a report, for errors, and the values by their names in the file."""
WANDB_HEADER = 7
"""The number of bytes of a W&B file before its first block."""
BLOCK = 32_768
"""The number of bytes of a block of a W&B file."""
PIECE_HEADER = 7
"""The number of bytes before each piece of a record: 4 for a checksum, 2 for a length, and 1 for a kind."""
PADDING = 0
WHOLE = 1
LAST = 4
"""The kinds of pieces. A record is one whole piece, or ends with a last piece."""


class WrongResults(Exception):
    """The reports of a program are wrong. The message names the file and the line, and says what to do."""


def rows_of_attempts(
    file: Path, folder: Path, attempts: Sequence[Mapping[str, int]], ended: bool
) -> list[Iterable[Row]]:
    """The rows of a file in each attempt. An attempt that was killed may have left an incomplete line.

    Args:
        file: a file of results.
        folder: the folder of the trial.
        attempts: the sizes of the files at the beginning of each attempt.
        ended: whether the program has ended. While it runs, the last line may be incomplete.
    """
    name = str(file.relative_to(folder))
    parts: list[Iterable[Row]]
    if file.suffix == ".wandb" or "tfevents" in file.name:  # one attempt writes the whole file
        later_attempts = sum(name in sizes for sizes in attempts)  # at their beginning the file was there
        rows = _wandb(file) if file.suffix == ".wandb" else _tensorboard(file)
        parts = [rows, *_nothing(later_attempts)]
    else:
        parts = _appended(name, file, attempts, ended)
    earlier_attempts = len(attempts) - len(parts)
    return [*_nothing(earlier_attempts), *parts]


def _nothing(attempts: int) -> list[Iterable[Row]]:
    """An empty list of rows for each of several attempts."""
    return [() for _ in range(attempts)]


def _appended(name: str, file: Path, attempts: Sequence[Mapping[str, int]], ended: bool) -> list[Iterable[Row]]:
    """The rows of a text file in each attempt. Each attempt appends to the file, or replaces it."""
    content = file.read_bytes()
    sizes = [sizes_of_attempt.get(name, 0) for sizes_of_attempt in attempts]
    # A file that is now shorter than at the beginning of an attempt was replaced by that attempt.
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
    """The rows of JSON lines. `first` is the number of the first line."""
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
    """The rows of CSV lines, with the names in the first line of the file.

    Args:
        name: the name of the file, for errors.
        text: the lines of an attempt. It may repeat the line of names.
        first: the number of the first line.
        names: the line of names.
    """
    header = next(csv.reader([names]))
    for number, row in enumerate(csv.reader(text.splitlines()), first):
        if row and row != header:
            if len(row) != len(header):
                raise WrongResults(f"{name}, line {number} has {len(row)} values, the first line {len(header)} names")
            yield f"{name}, line {number}", dict(zip(header, row, strict=True))


def _tensorboard(file: Path) -> Iterator[Row]:
    """The rows of TensorBoard's events, one for each step."""
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
    """The rows of a W&B file, one for each record of the history."""
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
    """The records in a log of wandb, which has the format of LevelDB: blocks of 32 KiB, with records in pieces.

    Args:
        content: the log.
        start: the position of the log in the file, from which blocks are counted.
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
