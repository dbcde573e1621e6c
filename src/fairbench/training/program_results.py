"""What a training program reported: JSON lines, a CSV file, TensorBoard's events, or W&B's offline files."""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairbench.arenas.program import ProgramOptions
from fairbench.common.installation import how_to_install


class WrongResults(Exception):
    """What a program reported is no result; the message names file, line and the way out."""


Row = tuple[str, Mapping[str, Any]]
"""Where something was reported, and the values by their names in the file."""


@dataclass
class Reported:
    """What a program has reported: values by keys and steps, all names in its files, and whether it began again."""

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

    @property
    def finite(self) -> bool:
        return all(math.isfinite(value) for column in self.values.values() for value in column.values())


def read_reported(
    folder: Path, options: ProgramOptions, attempts: Sequence[Mapping[str, int]], ended: bool = True
) -> Reported:
    """The values in the files that an arena names, in the folder of a trial.

    A trial that was interrupted has several attempts. What an attempt reports takes the place of what earlier ones had
    reported after its first step, and of the same values at that step: one that has only to evaluate reports no loss of
    training. `attempts` has the sizes of the files when each began. While the program runs, the last line may still be
    written. Several files of an attempt may not contradict each other.
    """
    reported = Reported()
    of_files = [_parts(file, folder, attempts, ended) for file in sorted(folder.glob(options.results))]
    for of_attempt in zip(*of_files, strict=True):
        found: dict[str, dict[int, float]] = {}
        for rows in of_attempt:
            _check(rows, options.names, reported.names, found)
        _add(reported, found)
    return reported


def _add(reported: Reported, part: Mapping[str, dict[int, float]]) -> None:
    """Add what an attempt reported, in place of what others had reported."""
    first = min((step for column in part.values() for step in column), default=math.inf)
    earliest = min((step for column in reported.values.values() for step in column), default=math.inf)
    reported.restarted |= first <= earliest < math.inf
    for key in reported.values.keys() | part.keys():
        kept = {step: value for step, value in reported.values.get(key, {}).items() if step <= first}
        reported.values[key] = {**kept, **part.get(key, {})}


def _check(rows: Iterator[Row], names: Mapping[str, str], seen: set[str], found: dict[str, dict[int, float]]) -> None:
    """Add the rows of a file in an attempt to what others have; steps rise, and each value is reported once."""
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


def _number(where: str, name: str, value: Any) -> float:
    """A value as a number, which may be infinite or NaN."""
    with suppress(ValueError, TypeError, OverflowError):
        if not isinstance(value, bool):
            return float(value)
    raise WrongResults(f"{where}: {name} must be a number, got {value!r:.80}")


def _parts(file: Path, folder: Path, attempts: Sequence[Mapping[str, int]], ended: bool) -> list[Iterator[Row]]:
    """The rows of a file in each attempt; one that was killed may have left half a line."""
    name = str(file.relative_to(folder))
    parts: list[Iterator[Row]] = []
    if "tfevents" in file.name or file.suffix == ".wandb":  # such a file is of one attempt
        parts = [iter(())] * sum(name in sizes for sizes in attempts)
        parts.insert(0, _wandb(file) if file.suffix == ".wandb" else _tensorboard(file))
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
            parts.append(_csv(name, text, line, names) if names else _json_lines(name, text, line))
            line += content[begin:end].count(b"\n")
    return [*[iter(())] * (len(attempts) - len(parts)), *parts]


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
        left = 32_768 - (start + offset) % 32_768
        length, kind = int.from_bytes(content[offset + 4 : offset + 6], "little"), content[offset + 6]
        if left < 7 or kind == 0:  # padding
            offset += left
            continue
        pieces.append(content[offset + 7 : offset + 7 + length])
        offset += 7 + length
        if kind in (1, 4):
            yield b"".join(pieces)
            pieces.clear()
