"""The rows in the binary files of loggers: TensorBoard's events, and W&B's offline files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairbench.common.installation import how_to_install
from fairbench.training.result_names import WrongResults
from fairbench.training.text_results import Row

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


def tensorboard_rows(file: Path) -> Iterator[Row]:
    """The rows of TensorBoard's events, one for each step. Values that are not single numbers are left out."""
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    except ImportError:
        raise WrongResults(f"{file.name} needs tensorboard: {how_to_install('dev')}") from None
    by_step: dict[int, dict[str, Any]] = {}
    for event in EventFileLoader(str(file)).Load():
        for value in event.summary.value:
            number = _scalar(value)
            if number is not None:
                row = by_step.setdefault(event.step, {"step": event.step})
                row[value.tag] = number
    for step in sorted(by_step):
        yield f"{file.name}, step {step}", by_step[step]


def _scalar(value: Any) -> float | None:
    """The number of a summary's value; None if it is a text, an image or several numbers.

    The loader has turned simple values into tensors. TensorFlow writes a tensor's bytes, others its `float_val`.
    """
    from tensorboard.util.tensor_util import make_ndarray

    try:
        numbers = make_ndarray(value.tensor)
    except (TypeError, ValueError):
        return None
    if numbers.size != 1 or numbers.dtype.kind not in "fiub":
        return None
    return float(numbers.reshape(-1)[0])


def wandb_rows(file: Path) -> Iterator[Row]:
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
            yield f"{file.name}, record {number}", row


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
