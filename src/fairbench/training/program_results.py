"""The reports of a training program, from all its files and attempts."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairbench.arenas.program import RESULT, ProgramOptions
from fairbench.training.printed_numbers import Unclear
from fairbench.training.result_files import OUTPUT, Folders, States, files_in, result_files, rows_of_attempts
from fairbench.training.result_names import WrongResults, chosen_names, step_names
from fairbench.training.text_results import Row, rows_found

Columns = dict[str, dict[int, float]]
"""The values of each key, such as "val/loss", by the number of steps."""


@dataclass
class Reported:
    """The reports of a program.

    Attributes:
        values: the values of each key, such as "val/loss", by the number of steps.
        result: the values that the program has reported as its result, by key.
        names: all names in the files.
        counted: whether no report had a number of steps, so that the reports themselves are counted.
        restarted: whether a later attempt began again with the first step.
        sources: the names of the files with results.
        written: the names of all files in the program's folder.
        output: the file with what the program has printed; None if it is not among the sources.
        unclear: for keys with a printed number that may be several ones, the message on it.
    """

    values: Columns = field(default_factory=dict)
    result: dict[str, float] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    counted: bool = True
    restarted: bool = False
    sources: Sequence[str] = ()
    written: Sequence[str] = ()
    output: Path | None = None
    unclear: dict[str, str] = field(default_factory=dict)

    @property
    def first(self) -> float:
        """The first step of any value; infinite without one."""
        return _first_step(self.values)

    @property
    def last(self) -> int:
        """The last step of any value; 0 without values."""
        last_of_each = [max(column, default=0) for column in self.values.values()]
        return max(last_of_each, default=0)

    def rows(self, keys: Mapping[str, str]) -> dict[int, dict[str, float]]:
        """The values of several keys after each step at which all of them were reported.

        `keys` has the key of each value, by its name in the result.
        """
        columns = {name: self.values.get(key, {}) for name, key in keys.items()}
        common = set.intersection(*(set(column) for column in columns.values()))
        rows = {}
        for step in sorted(common):
            rows[step] = {name: column[step] for name, column in columns.items()}
        return rows

    @property
    def finite(self) -> bool:
        """Whether the training ended with finite values: weights that are NaN give no finite value any more.

        So a value that is not finite counts only if no finite one of its name follows. Many programs write NaN where
        they have measured nothing. For a training loss a finite evaluation at its step or later is enough.
        """
        if not all(map(math.isfinite, self.result.values())):
            return False
        evaluated = 0
        for key, column in self.values.items():
            if not key.startswith("train/"):
                evaluated = max([evaluated, *finite_values(column)])
        for key, column in self.values.items():
            last = max(column)
            if not math.isfinite(column[last]) and not (key.startswith("train/") and last <= evaluated):
                return False
        return True


def finite_values(column: Mapping[int, float]) -> dict[int, float]:
    """The finite values of a column, by step."""
    return {step: value for step, value in column.items() if math.isfinite(value)}


def read_reported(
    folders: Folders, options: ProgramOptions, attempts: Sequence[States], ended: bool = True
) -> Reported:
    """Read the files of results of a trial.

    A trial that was interrupted has several attempts. The reports of an attempt replace those of earlier attempts
    after its first step, and the same values at this step. The other values at this step stay: an attempt that only
    evaluates once more reports no training loss.

    Args:
        folders: the folders of the trial.
        options: the options of the program.
        attempts: the states of the files at the beginning of each attempt.
        ended: whether the program has ended. While it runs, the last line of a file may be incomplete.

    Raises:
        WrongResults: a report is wrong, or files of an attempt contradict each other.
    """
    files = result_files(folders, options)
    reported = Reported(sources=list(files), written=files_in(folders.out), output=files.get(OUTPUT))
    rows_of_files: dict[str, list[list[Row]]] = {}
    for name, file in files.items():
        parts = rows_of_attempts(name, file, attempts, options, ended)
        rows_of_files[name] = [list(rows) for rows in parts]
        for rows in rows_of_files[name]:
            reported.names |= rows_found(rows)
    chosen = chosen_names(options, reported.names)
    for attempt in range(len(attempts)):
        columns: Columns = {}
        for name, rows_by_attempt in rows_of_files.items():
            _add_rows(reported, rows_by_attempt[attempt], chosen, options, columns, corrects=name == OUTPUT)
        _add(reported, columns)
    return reported


def _add(reported: Reported, part: Columns) -> None:
    """Add the values of an attempt, in place of those that earlier attempts had reported after its first step."""
    first = _first_step(part)
    if first <= reported.first < math.inf:
        reported.restarted = True
    for key in reported.values.keys() | part.keys():
        kept = {step: value for step, value in reported.values.get(key, {}).items() if step <= first}
        reported.values[key] = {**kept, **part.get(key, {})}


def _first_step(columns: Mapping[str, Mapping[int, float]]) -> float:
    """The first step of any value; infinite without one."""
    first_of_each = [min(column, default=math.inf) for column in columns.values()]
    return min(first_of_each, default=math.inf)


def _add_rows(
    reported: Reported,
    rows: Sequence[Row],
    chosen: Mapping[str, str],
    options: ProgramOptions,
    columns: Columns,
    *,
    corrects: bool,
) -> None:
    """Add the rows of a file in an attempt.

    Args:
        reported: gets the result.
        rows: the rows of the file.
        chosen: the name in the file of each key.
        options: the options of the program.
        columns: gets the values of each key by step. It may have those of other files.
        corrects: whether a later value for a step replaces an earlier one, as in printed output.

    Raises:
        WrongResults: steps do not rise, or a value is reported twice with different numbers.
    """
    usual = [row for row in rows if row[1].get(RESULT) is not True]
    names = step_names(options, rows_found(usual))
    whole = [name for name in names if not _has_fractions(name, usual)]
    if whole:
        reported.counted = False
    elif names:
        usual = _with_whole_steps(names[0], usual)
        whole = names[:1]
    columns.update(_consistent_columns(usual, chosen, whole or [""], columns, corrects=corrects))
    for where, row in rows:
        for key, name in chosen.items():
            if isinstance(row.get(name), Unclear):
                reported.unclear.setdefault(key, f"{where}: {name} must be one number, got {row[name]}")
        if row.get(RESULT) is True:
            _add_result(reported, where, row, chosen, columns, options.names["step"])


def _has_fractions(step_name: str, rows: Iterable[Row]) -> bool:
    """Whether steps are epochs of which some are fractions, as a Trainer of transformers reports them."""
    if "epoch" not in step_name.lower():
        return False
    for _, row in rows:
        with suppress(ValueError, TypeError, OverflowError):
            if float(row.get(step_name, 0)) % 1:
                return True
    return False


def _with_whole_steps(step_name: str, rows: Sequence[Row]) -> list[Row]:
    """Rows whose steps are fractions with the numbers of these steps in their order: 1 for the first."""
    numbers: dict[float, int] = {}
    numbered: list[Row] = []
    for where, row in rows:
        values = dict(row)
        if row.get(step_name) not in (None, ""):
            step = _number(where, step_name, row[step_name])
            values[step_name] = numbers.setdefault(step, len(numbers) + 1)
        numbered.append((where, values))
    return numbered


def _consistent_columns(
    rows: Sequence[Row], chosen: Mapping[str, str], step_names: Sequence[str], others: Columns, *, corrects: bool
) -> Columns:
    """The values of each key by the first of several names of steps with which the rows do not contradict each other.

    Of printed output, that is first a name with which no value replaces another one: a step that begins again in each
    epoch is none. Without any name, the error is that of the first. `_columns` explains the arguments.
    """
    errors: list[WrongResults] = []
    for replaces in (False, True) if corrects else (False,):
        errors.clear()
        for step_name in step_names:
            try:
                return _columns(rows, chosen, step_name, others, is_printed=corrects, replaces=replaces)
            except WrongResults as error:
                errors.append(error)
    raise errors[0]


def _add_result(
    reported: Reported, where: str, row: Mapping[str, Any], chosen: Mapping[str, str], columns: Columns, step_name: str
) -> None:
    """Add the row of `fairbench.trial.Trial.result`. Where a value was already logged at its step, that one stays."""
    step = int(row[step_name])
    reported.counted = False
    for key, value in _known(row, chosen).items():
        number = _number(where, chosen[key], value)
        reported.result[key] = number
        columns.setdefault(key, {}).setdefault(step, number)


def _columns(
    rows: Iterable[Row],
    chosen: Mapping[str, str],
    step_name: str,
    others: Columns,
    *,
    is_printed: bool,
    replaces: bool,
) -> Columns:
    """The values of each key by step, with those of other files.

    A row without a step belongs to the last one before it. Without a name of steps, the rows are counted.

    Args:
        rows: the rows of a file.
        chosen: the name in the file of each key.
        step_name: the name of the steps; empty for none.
        others: the values of other files.
        is_printed: whether a row may have a step for those behind it, and no value.
        replaces: whether a later value for a step replaces an earlier one.

    Raises:
        WrongResults: steps do not rise, or a value is reported twice with different numbers.
    """
    columns = {key: dict(column) for key, column in others.items()}
    step = 0
    last = 0
    for where, row in rows:
        known = _known(row, chosen)
        if row.get(step_name) not in (None, ""):
            if not known and not is_printed:
                continue
            step = _step(where, step_name, row[step_name])
        elif known and not step_name:
            step += 1
        if not known:
            continue
        if step < last:
            raise WrongResults(f"{where}: step {step} follows step {last}; let one process report, in their order")
        last = step
        for key, value in known.items():
            column = columns.setdefault(key, {})
            number = _number(where, chosen[key], value)
            # NaN differs from itself, its text does not
            is_other = step in column and repr(column[step]) != repr(number)
            if is_other and not replaces:
                both = f"{chosen[key]} at step {step} is {number:g}, and was {column[step]:g}"
                remedy = "let one do it; report a best value under another name, or by trial.result"
                raise WrongResults(f"{where}: {both}; do two processes report? {remedy}")
            column[step] = number
    return columns


def _known(row: Mapping[str, Any], chosen: Mapping[str, str]) -> dict[str, Any]:
    """The values of a row by their keys. Empty ones are left out."""
    known = {}
    for key, name in chosen.items():
        value = row.get(name)
        if value not in (None, "") and not isinstance(value, Unclear):
            known[key] = value
    return known


def _step(where: str, name: str, value: Any) -> int:
    """A number of steps. Raises `WrongResults` for any other value."""
    step = _number(where, name, value)
    if not step.is_integer() or step < 0:
        raise WrongResults(f"{where}: {name} must be a whole number of steps, got {step}")
    return int(step)


def _number(where: str, name: str, value: Any) -> float:
    """A value as a number, which may be infinite or NaN."""
    with suppress(ValueError, TypeError, OverflowError):
        if not isinstance(value, bool):
            return float(value)
    raise WrongResults(f"{where}: {name} must be a number, got {value!r:.80}")
