"""What a training program reported, in all its files and attempts."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairbench.arenas.program import ProgramOptions
from fairbench.training.result_files import Row, WrongResults, rows_of_attempts


@dataclass
class Reported:
    """What a program has reported: values by keys and steps, all names in its files, and whether it began again."""

    values: dict[str, dict[int, float]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    restarted: bool = False

    @property
    def last(self) -> int:
        last_of_each = [max(column, default=0) for column in self.values.values()]
        return max(last_of_each, default=0)

    def rows(self, keys: Mapping[str, str], steps: int) -> dict[int, dict[str, float]]:
        """The values of some keys by other names, after each step at which every one was reported.

        The last of all steps may be counted from 0.
        """
        columns = {name: self.values.get(key, {}) for name, key in keys.items()}
        common = set.intersection(*(set(column) for column in columns.values()))
        rows = {}
        for step in sorted(common):
            counted = step
            if step == steps - 1 and steps not in common:
                counted = steps
            rows[counted] = {name: column[step] for name, column in columns.items()}
        return rows

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
    files = sorted(folder.glob(options.results))
    of_files = [rows_of_attempts(file, folder, attempts, ended) for file in files]
    for of_attempt in zip(*of_files, strict=True):
        found: dict[str, dict[int, float]] = {}
        for rows in of_attempt:
            _check(rows, options.names, reported.names, found)
        _add(reported, found)
    return reported


def _add(reported: Reported, part: Mapping[str, dict[int, float]]) -> None:
    """Add what an attempt reported, in place of what others had reported."""
    first = _first_step(part)
    earliest = _first_step(reported.values)
    if first <= earliest < math.inf:
        reported.restarted = True
    for key in reported.values.keys() | part.keys():
        kept = {step: value for step, value in reported.values.get(key, {}).items() if step <= first}
        reported.values[key] = {**kept, **part.get(key, {})}


def _first_step(columns: Mapping[str, Mapping[int, float]]) -> float:
    """The first step of any value; infinite without one."""
    first_of_each = [min(column, default=math.inf) for column in columns.values()]
    return min(first_of_each, default=math.inf)


def _check(rows: Iterable[Row], names: Mapping[str, str], seen: set[str], found: dict[str, dict[int, float]]) -> None:
    """Add the rows of a file in an attempt to what others have; steps rise, and each value is reported once."""
    last = 0
    for where, row in rows:
        seen.update(row)
        known = {}
        for key, name in names.items():
            value = row.get(name)
            if key != "step" and value not in (None, ""):
                known[key] = value
        if not known:
            continue
        step = _number(where, names["step"], row.get(names["step"]))
        if not step.is_integer() or step < 0:
            raise WrongResults(f"{where}: {names['step']} must be a whole number of steps, got {step}")
        if step < last:
            raise WrongResults(f"{where}: step {step:.0f} follows step {last}; let one process report, in their order")
        last = int(step)
        for key, value in known.items():
            column = found.setdefault(key, {})
            number = _number(where, names[key], value)
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
