"""What a training program reported: JSON lines, a CSV file, TensorBoard's events, or W&B's offline files."""

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairbench.arenas.program import ProgramOptions
from fairbench.common.installation import how_to_install


class WrongResults(Exception):
    """What a program reported is no result; the message names file, line and the way out."""


BLOCK = 1 << 15
"""Bytes of a block of a log of LevelDB."""
Row = tuple[str, Mapping[str, Any]]
"""Where something was reported, and the values by their names in the file."""
Sizes = Mapping[str, int]
"""Bytes of each file when an attempt of a trial began."""


@dataclass
class Reported:
    """The values that a program has reported, by keys and steps.

    Attributes:
        names: all names in its files.
        restarted: whether a later attempt began from the start.
    """

    values: dict[str, dict[int, float]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    restarted: bool = False

    @property
    def last(self) -> int:
        return max((step for column in self.values.values() for step in column), default=0)

    def rows(self, keys: Mapping[str, str], steps: int) -> dict[int, dict[str, float]]:
        """The values of some keys by other names, after each step at which every one was reported.

        The last of all steps may be counted from 0.
        """
        columns = {name: self.values.get(key, {}) for name, key in keys.items()}
        common = sorted(set.intersection(*(set(column) for column in columns.values())))
        shifted = steps - 1 if steps not in common else None
        return {steps if x == shifted else x: {name: of[x] for name, of in columns.items()} for x in common}

    def metrics(self, split: str, names: Iterable[str], steps: int) -> dict[int, dict[str, float]]:
        """All metrics of a split, as rows."""
        return self.rows({name: f"{split}/{name}" for name in names}, steps)

    @property
    def finite(self) -> bool:
        return all(math.isfinite(value) for column in self.values.values() for value in column.values())


def read_reported(folder: Path, options: ProgramOptions, attempts: Sequence[Sizes], ended: bool = True) -> Reported:
    """The values in the files that an arena names, in the folder of a trial.

    A trial that was interrupted has several attempts. What an attempt reports takes the place of what earlier ones had
    reported after its first step, and of the same values at that step: one that has only to evaluate reports no loss of
    training. `attempts` has the sizes of the files when each began. While the program runs, the last line may still be
    written.
    """
    reported = Reported()
    files = sorted(folder.glob(options.results), key=lambda file: (file.stat().st_mtime_ns, file.name))
    for number, part in enumerate(part for file in files for part in _parts(file, folder, attempts, ended)):
        _add(reported, _checked(part, options.names, reported.names), is_first=number == 0)
    return reported


def _add(reported: Reported, part: Mapping[str, dict[int, float]], is_first: bool) -> None:
    """Add what an attempt reported, in place of what others had reported."""
    first = min((step for column in part.values() for step in column), default=math.inf)
    earliest = min((step for column in reported.values.values() for step in column), default=math.inf)
    reported.restarted |= not is_first and first <= earliest < math.inf
    for key in reported.values.keys() | part.keys():
        kept = {step: value for step, value in reported.values.get(key, {}).items() if step <= first}
        reported.values[key] = {**kept, **part.get(key, {})}


def _checked(rows: Iterator[Row], names: Mapping[str, str], seen: set[str]) -> dict[str, dict[int, float]]:
    """The values of one attempt; steps rise, and each value is reported once. All names that it has are added."""
    found: dict[str, dict[int, float]] = {}
    last = 0
    for where, row in rows:
        seen.update(row)
        known = {key: row[name] for key, name in names.items() if key != "step" and row.get(name) not in (None, "")}
        if not known:
            continue
        step = _number(where, names["step"], row.get(names["step"]))
        if not step.is_integer() or step < 0:
            raise WrongResults(f"{where}: {names['step']} must be a whole number of steps, got {step}")
        if step < last:
            raise WrongResults(f"{where}: step {step:.0f} follows step {last}; let one process report, in their order")
        last = int(step)
        for key, value in known.items():
            column, number = found.setdefault(key, {}), _number(where, names[key], value)
            if last in column and repr(column[last]) != repr(number):  # the same NaN twice is no contradiction
                both = f"{names[key]} at step {last} is {number:g}, and was {column[last]:g}"
                raise WrongResults(f"{where}: {both}; do two processes report? let one do it")
            column[last] = number
    return found


def _number(where: str, name: str, value: Any) -> float:
    """A value as a number, which may be infinite or NaN."""
    with suppress(ValueError, TypeError, OverflowError):
        if not isinstance(value, bool):
            return float(value)
    raise WrongResults(f"{where}: {name} must be a number, got {value!r:.80}")


def _parts(file: Path, folder: Path, attempts: Sequence[Sizes], ended: bool) -> Iterator[Iterator[Row]]:
    """The rows of a file, those of each attempt apart; an attempt that was killed may have left half a line."""
    name = str(file.relative_to(folder))
    if "tfevents" in file.name:
        yield _tensorboard(file)
    elif file.suffix == ".wandb":
        yield _wandb(file)
    else:
        content = file.read_bytes()
        begins = [x for sizes in attempts if (x := sizes.get(name, 0)) <= len(content)] or [0]
        bounds = [*begins, len(content)]
        names = content.partition(b"\n")[0].decode(errors="replace") if file.suffix == ".csv" else ""
        line = 1
        for begin, end in pairwise(bounds):
            text = content[begin:end].decode(errors="replace")
            if end < len(content) or not ended:
                text = text[: text.rfind("\n") + 1]
            yield _csv(name, text, line, names) if names else _json_lines(name, text, line)
            line += content[begin:end].count(b"\n")


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
            number = value.tensor.float_val[0] if value.tensor.float_val else value.simple_value
            by_step.setdefault(event.step, {"step": event.step})[value.tag] = number
    yield from ((f"{file.name}, step {step}", by_step[step]) for step in sorted(by_step))


def _wandb(file: Path) -> Iterator[Row]:
    try:
        from wandb.proto.wandb_internal_pb2 import Record
    except ImportError:
        raise WrongResults(f"{file.name} needs wandb: pip install wandb") from None
    for number, content in enumerate(_log_records(file.read_bytes()[7:], 7), 1):
        record = Record()
        record.ParseFromString(content)
        if record.WhichOneof("record_type") == "history":
            row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            yield f"{file.name}, record {number}", {"step": row.get("_step"), **row}


def _log_records(content: bytes, start: int) -> Iterator[bytes]:
    """The records in a log of LevelDB's form, in which wandb writes: blocks of 32 KiB, a record in one or more pieces.

    Each piece has a checksum of 4 bytes, a length of 2, and a kind of 1: whole, first, middle or last.
    """
    offset, pieces = 0, list[bytes]()
    while offset + 7 <= len(content):
        left = BLOCK - (start + offset) % BLOCK
        length, kind = int.from_bytes(content[offset + 4 : offset + 6], "little"), content[offset + 6]
        if left < 7 or kind == 0:  # padding
            offset += left
            continue
        pieces.append(content[offset + 7 : offset + 7 + length])
        offset += 7 + length
        if kind in (1, 4):
            yield b"".join(pieces)
            pieces.clear()
