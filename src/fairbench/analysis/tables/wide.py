"""Columns of values whose names say more than the metric: a column for each optimizer, arena or seed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from fairbench.analysis.tables.column_names import VALUES, is_of_test, is_setting, plain_name
from fairbench.analysis.tables.columns import Columns, Roles
from fairbench.analysis.tables.labels import is_data_set, is_optimizer, is_summary
from fairbench.analysis.tables.metric_names import (
    OF_METRIC,
    arrow_of,
    chosen_metric,
    is_metric,
    split_statistic,
    without_arrow,
)
from fairbench.analysis.tables.readers.sheet import Row, Sheet
from fairbench.analysis.tables.runs import ADDED
from fairbench.analysis.tables.seed_names import seed_in
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)

GROUP = re.compile(r"^(?:optimi[sz]er|group): ", re.IGNORECASE)
"""What W&B puts before the name of a group of runs."""
SPLIT = re.compile(r"(split\d+)_(.+)")
"""The column of a split of the cross-validation in scikit-learn, such as "split0_test_score"."""


class ValueColumn(NamedTuple):
    """What the name of a column of values says.

    Attributes:
        label: the optimizer, the arena or the seed; empty if the name only has a metric.
        metric: the metric; empty if the name has none.
        statistic: the role of its numbers: "value", "mean", "std", "sem" or "n".
        better: the better values by an arrow in the name; empty without one.
    """

    label: str
    metric: str
    statistic: str
    better: str


@dataclass(frozen=True)
class Wide:
    """The columns of values of a table, and the role of the labels in their names."""

    role: str
    columns: Mapping[str, ValueColumn]

    @property
    def labels(self) -> list[str]:
        """The labels in the order of the table."""
        return list(dict.fromkeys(column.label for column in self.columns.values()))


def value_column(column: str) -> ValueColumn:
    """The label, the metric and the statistic that the name of a column joins."""
    better = arrow_of(column)
    name = without_arrow(column)
    optimizer, dash, metric = name.rpartition(" - ")  # as W&B names the runs of a chart
    if dash:
        return ValueColumn(label=GROUP.sub("", optimizer), metric=metric, statistic="value", better=better)
    split = SPLIT.fullmatch(name)
    if split:
        return ValueColumn(label=split[1], metric=split[2], statistic="value", better=better)
    statistic, name = split_statistic(name)
    label = name
    metric = ""
    match = OF_METRIC.fullmatch(name)
    if match:
        label, metric = match.groups()
    elif is_metric(name):
        label = ""
        metric = name
    return ValueColumn(label=GROUP.sub("", label), metric=metric, statistic=statistic, better=better)


def wide(columns: Columns, fewest: int) -> Wide | None:
    """The columns of values whose names are optimizers, arenas or seeds. None for a table without such columns.

    Args:
        fewest: the smallest number of columns that can be optimizers.

    Raises:
        UsageError: the names of the columns are numbers that may be seeds, steps or settings.
    """
    if "value" in columns.roles or "mean" in columns.roles:
        return None
    values = _columns_of_values(columns)
    if columns.wide_role:
        return Wide(columns.wide_role, values)
    seeds = _columns_of_seeds(values)
    if len(seeds) > 1 and "seed" not in columns.roles:
        numbers = [column for column in seeds if column.isdigit()]
        if numbers and not _are_counted(numbers):
            raise _numbers_error(columns.sheet, numbers)
        return Wide("seed", seeds)
    labels = [value.label for value in values.values()]
    if not all(labels) or any(plain_name(column) in VALUES for column in values):
        return None  # at least one column is a metric, so the others are not labels
    numbers = [column for column in values if NUMBER.fullmatch(column)]
    if numbers:
        raise _numbers_error(columns.sheet, numbers)
    if "optimizer" in columns.roles:
        return _of_arenas(columns, values)
    if columns.run_names is not None or len(set(labels)) < fewest or _has_words(columns, labels):
        return None
    return Wide("optimizer", values)


def _columns_of_values(columns: Columns) -> dict[str, ValueColumn]:
    """The columns of numbers that may have results: no settings and no summaries of other columns."""
    values = {}
    for column in columns.numeric:
        if is_setting(column) or is_of_test(column) or (is_summary(column) and not is_metric(column)):
            continue
        values[column] = value_column(column)
    counters = [column for column in values if _is_counter(columns.sheet, column)]
    if len(counters) < len(values):
        for column in counters:
            del values[column]  # it counts something else than the other columns
    return values


def _columns_of_seeds(values: Mapping[str, ValueColumn]) -> dict[str, ValueColumn]:
    """The columns whose labels name a seed, with this seed as their label."""
    seeds = {}
    for column, value in values.items():
        seed = seed_in(value.label)
        if seed:
            seeds[column] = value._replace(label=seed)
    return seeds


def _is_counter(sheet: Sheet, column: str) -> bool:
    """Whether a column of three or more whole numbers rises from row to row, as a count of steps or sizes does."""
    texts = sheet.column(column)
    if len(texts) < 3 or not all(text.isdigit() for text in texts):
        return False
    return all(int(before) < int(after) for before, after in pairwise(texts))


def _are_counted(numbers: Sequence[str]) -> bool:
    """Whether numbers count from 0 or 1."""
    first = int(numbers[0])
    return first in (0, 1) and [int(number) for number in numbers] == list(range(first, first + len(numbers)))


def _numbers_error(sheet: Sheet, numbers: Sequence[str]) -> UsageError:
    """The error for columns whose names are numbers that do not count, or for a first line with values."""
    for column in sheet.columns:
        if column in sheet.column(column):
            return UsageError(
                f"{sheet.name}: the first line has no names of columns, since {column!r} is also a value below it; "
                "write a line of names above it, such as optimizer,seed,value"
            )
    return UsageError(
        f"{sheet.name}: the columns {some(numbers)} are numbers; give --columns seed=columns if they are seeds, "
        "--columns arena=columns if each is a setting of its own, or --metric with one of them"
    )


def _of_arenas(columns: Columns, values: Mapping[str, ValueColumn]) -> Wide | None:
    """The columns as arenas, in a table with the optimizers in its rows; None if they may be metrics.

    They are arenas if one of them has the name of a well-known data set, or if each row is another optimizer.
    """
    labels = {value.label for value in values.values()}
    if len(labels) < 2 or "arena" in columns.roles:
        return None
    if any(is_data_set(label) for label in labels):
        return Wide("arena", values)
    if any(value.metric for value in values.values()):
        return None  # names such as "cross_entropy loss"
    optimizers = [columns.sheet.column(column) for column in columns.roles["optimizer"]]
    names = [*zip(*optimizers, strict=True)]
    if len(set(names)) == len(names):
        return Wide("arena", values)
    return None


def _has_words(columns: Columns, labels: Sequence[str]) -> bool:
    """Whether a named column of words may tell the optimizer of each row, so that the labels are not optimizers.

    It may not if the labels are well-known optimizers.
    """
    if any(is_optimizer(label) for label in labels):
        return False
    for column in columns.without_role:
        is_constant = len(set(columns.sheet.column(column))) == 1
        if column not in columns.numeric and not is_constant and not column.startswith("column "):
            return True
    return False


def with_row_for_each(sheet: Sheet, table: Wide, roles: Roles, metric: str) -> tuple[Sheet, Roles, str]:
    """The table with a row for each value of the wide columns, its roles, and the judged metric.

    Args:
        roles: the roles of the other columns.
        metric: the metric that the user asks for, or empty.

    Raises:
        UsageError: it is not clear which metric is judged, or no cell has a value.
    """
    judged = dict(table.columns)
    if "metric" not in roles:
        # the names of the columns tell the metrics, not the rows
        metric_of = {column: value.metric or "value" for column, value in judged.items()}
        metric = chosen_metric(sheet.name, metric, list(dict.fromkeys(metric_of.values())))
        judged = {column: value for column, value in judged.items() if metric_of[column] == metric}
    statistics = list(dict.fromkeys(value.statistic for value in judged.values()))
    labels = list(dict.fromkeys(value.label for value in judged.values()))
    has_arrows = any(value.better for value in judged.values())
    rows = []
    empty_cells = 0
    for row in sheet.rows:
        for label in labels:
            cells = _cells_of(row, label, judged)
            if not any(cells[statistic] for statistic in statistics):
                empty_cells += 1
                continue
            text_of_role = {**cells, table.role: label}
            added = {_added(role): text for role, text in text_of_role.items()}
            rows.append(replace(row, cells={**row.cells, **added}))
    if empty_cells > 0 and "step" not in roles:
        sheet = sheet.with_note(f"{plural(empty_cells, 'empty cell')} taken as a seed that was not run")
    if not rows:
        raise UsageError(f"{sheet.name}: no values are in {some([*judged])}")
    added_roles = [table.role, *statistics]
    if has_arrows and "better" not in roles:
        added_roles.append("better")
    columns_of_added = {role: [_added(role)] for role in added_roles}
    return replace(sheet, rows=rows), {**roles, **columns_of_added}, metric


def _cells_of(row: Row, label: str, judged: Mapping[str, ValueColumn]) -> dict[str, str]:
    """The texts of a label in a row by their roles: a value, or statistics, and the better values by an arrow."""
    cells = {value.statistic: "" for value in judged.values()}
    for column, value in judged.items():
        if value.label == label:
            cells[value.statistic] = row.cells[column]
            cells["better"] = value.better
    return cells


def _added(role: str) -> str:
    """The name of the column that is added to a table for a role."""
    return f"{ADDED}{role}"
