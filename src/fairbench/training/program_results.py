"""The reports of a training program, from all its files and attempts."""

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
    """The reports of a program.

    Attributes:
        values: the values of each key, as "val/loss", by the number of steps.
        names: all names in the files.
        restarted: whether a later attempt began again with the first step.
    """

    values: dict[str, dict[int, float]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    restarted: bool = False

    @property
    def last(self) -> int:
        """The last step of any value; 0 without values."""
        last_of_each = [max(column, default=0) for column in self.values.values()]
        return max(last_of_each, default=0)

    def rows(self, keys: Mapping[str, str], steps: int) -> dict[int, dict[str, float]]:
        """The values of several keys after each step at which all of them were reported.

        Args:
            keys: the key of each value, by its name in the result.
            steps: the number of steps of the training. A program may count from 0, so that its last step is one less.
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
        """Whether all values are finite."""
        return all(math.isfinite(value) for column in self.values.values() for value in column.values())


def read_reported(
    folder: Path, options: ProgramOptions, attempts: Sequence[Mapping[str, int]], ended: bool = True
) -> Reported:
    """Read the files of results of a trial.

    A trial that was interrupted has several attempts. The reports of an attempt replace those of earlier attempts
    after its first step, and the same values at this step. The other values at this step stay: an attempt that only
    evaluates once more reports no training loss.

    Args:
        folder: the folder of the trial.
        options: the options of the program, with the pattern of the files.
        attempts: the sizes of the files at the beginning of each attempt.
        ended: whether the program has ended. While it runs, the last line of a file may be incomplete.

    Raises:
        WrongResults: a report is wrong, or files of an attempt contradict each other.
    """
    reported = Reported()
    files = sorted(folder.glob(options.results))
    rows_by_file = [rows_of_attempts(file, folder, attempts, ended) for file in files]
    for rows_of_files in zip(*rows_by_file, strict=True):  # once for each attempt
        columns: dict[str, dict[int, float]] = {}
        for rows in rows_of_files:
            _add_rows(rows, options.names, reported.names, columns)
        _add(reported, columns)
    return reported


def _add(reported: Reported, part: Mapping[str, dict[int, float]]) -> None:
    """Add the values of an attempt, in place of those that earlier attempts had reported after its first step."""
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


def _add_rows(
    rows: Iterable[Row], names: Mapping[str, str], all_names: set[str], columns: dict[str, dict[int, float]]
) -> None:
    """Add the rows of a file in an attempt to the values of this attempt.

    Args:
        rows: the rows of the file.
        names: the name in the file of each key.
        all_names: gets all names in the file.
        columns: gets the values of each key by step. It may have those of other files.

    Raises:
        WrongResults: steps do not rise, or a value is reported twice with different numbers.
    """
    last = 0
    for where, row in rows:
        all_names.update(row)
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
            column = columns.setdefault(key, {})
            number = _number(where, names[key], value)
            if last in column and repr(column[last]) != repr(number):  # NaN differs from itself, but its text does not
                both = f"{names[key]} at step {last} is {number:g}, and was {column[last]:g}"
                raise WrongResults(f"{where}: {both}; do two processes report? let one do it")
            column[last] = number


def _number(where: str, name: str, value: Any) -> float:
    """A value as a number, which may be infinite or NaN."""
    with suppress(ValueError, TypeError, OverflowError):
        if not isinstance(value, bool):
            return float(value)
    raise WrongResults(f"{where}: {name} must be a number, got {value!r:.80}")
