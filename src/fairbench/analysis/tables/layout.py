"""Conversion of a table of any layout into one with a value, or a summary, in each row."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fairbench.analysis.tables.column_names import (
    OF_SEED,
    SUMMARY,
    VALUES,
    VARIED,
    is_setting,
    plain_name,
)
from fairbench.analysis.tables.columns import Columns, Roles, has_numbers, which_column
from fairbench.analysis.tables.metric_names import OF_METRIC, chosen_metric, is_metric
from fairbench.analysis.tables.readers.sheet import Row, Sheet
from fairbench.analysis.tables.value_columns import columns_of_value
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some


@dataclass(frozen=True)
class LongTable:
    """A table with one value, or one summary of several runs, in each row.

    Attributes:
        roles: the columns of each role.
        metric: the name of the judged metric. With a column of metrics, the metric that the user asks for, or empty.
    """

    sheet: Sheet
    roles: Roles
    metric: str


class ValueColumn(NamedTuple):
    """The optimizer and the metric of a column of values, by its name."""

    optimizer: str
    metric: str


def long_table(columns: Columns, *, one_optimizer_is_enough: bool) -> LongTable:
    """The table with a row for each value. Before, each optimizer or each seed may have had a column of values.

    Args:
        one_optimizer_is_enough: whether a table of one optimizer can be judged. It needs no column of optimizers.

    Raises:
        UsageError: a column is missing, or may be more than one.
    """
    roles = dict(columns.roles)
    metric = columns.metric
    optimizers: dict[str, ValueColumn] = {}
    if columns.run_names is None and "optimizer" not in roles:
        # no column tells the optimizer of a row, so the columns may be the optimizers
        fewest = 1 if one_optimizer_is_enough else 2
        optimizers = _columns_of_optimizers(columns, fewest)
    sheet = _without_summaries(columns.sheet, roles)
    if optimizers:
        return _of_optimizers(sheet, roles, optimizers, metric)
    seeds = _columns_of_seeds(columns.numeric)
    # a single column "run 1" may be anything
    if len(seeds) > 1 and "seed" not in roles and "value" not in roles:
        sheet = _with_row_for_each(sheet, "seed", seeds, has_steps="step" in roles)
        roles |= {"seed": [_added("seed")], "value": ["value"]}
    if columns.run_names is not None:
        roles.setdefault("optimizer", [columns.run_names])
    if "optimizer" not in roles and not one_optimizer_is_enough:
        raise which_column(sheet, "optimizer", "or a table with a column for each optimizer; ")
    column_of_role, metric = columns_of_value(sheet, roles, columns.numeric, metric)
    if "seed" not in roles and "step" not in roles:
        # each row counts as a run of its own, which may be wrong
        unexplained = [column for column in columns.without_role if column not in column_of_role.values()]
        _check_runs(sheet, roles, unexplained)
    for role, column in column_of_role.items():
        roles[role] = [column]
    if not sheet.rows:
        raise UsageError(f"{sheet.name} has no values in its rows")
    return LongTable(sheet, roles, metric)


def _columns_of_seeds(columns: Sequence[str]) -> dict[str, str]:
    """The seed of each column that has the values of one seed; other columns are left out."""
    seeds = {}
    for column in columns:
        match = OF_SEED.fullmatch(column)
        if match:
            seeds[column] = match[1]
    return seeds


def _columns_of_optimizers(columns: Columns, fewest: int) -> dict[str, ValueColumn]:
    """The optimizer and the metric of each column of values, in a table with a column for each optimizer.

    Empty for another table, or with fewer such columns than needed.
    """
    value_columns: dict[str, ValueColumn] = {}
    for column in columns.numeric:
        name, metric = _name_and_metric(column)
        if not metric and is_metric(column):
            return {}  # this column is a metric, so the other columns are not optimizers
        if plain_name(column) not in VALUES and not is_setting(column):
            optimizer = re.sub(r"^optimi[sz]er: ", "", name)
            value_columns[column] = ValueColumn(optimizer, metric or "value")
    if len(value_columns) < fewest:
        return {}
    for column in columns.without_role:
        if column in columns.numeric:
            continue
        has_several_texts = len(set(columns.sheet.column(column))) > 1
        if has_several_texts and not column.startswith("column "):
            return {}  # a named column of words may tell the optimizer of each row
    return value_columns


def _name_and_metric(column: str) -> tuple[str, str]:
    """The optimizer and the metric that the name of a column joins. The metric may be empty."""
    optimizer, dash, metric = column.rpartition(" - ")  # as W&B names the runs of a chart
    if dash:
        return optimizer, metric
    match = OF_METRIC.fullmatch(column)
    if match:
        return match[1], match[2]
    return column, ""


def _without_summaries(sheet: Sheet, roles: Roles) -> Sheet:
    """The table without the rows of means and other summaries."""
    # the word for a summary stands in the first column, or in place of a seed
    columns = [sheet.columns[0], *roles.get("seed", ())]
    kept = [row for row in sheet.rows if not _is_summary(row, columns)]
    skipped_rows = len(sheet.rows) - len(kept)
    if skipped_rows == 0:
        return sheet
    return replace(sheet, rows=kept).with_note(f"{plural(skipped_rows, 'row')} of means or other summaries skipped")


def _is_summary(row: Row, columns: Sequence[str]) -> bool:
    """Whether one of some cells of a row is a word for a summary, as "mean"."""
    return any(SUMMARY.fullmatch(row.cells[column].casefold()) for column in columns)


def _of_optimizers(sheet: Sheet, roles: Roles, optimizers: Mapping[str, ValueColumn], metric: str) -> LongTable:
    """The long table of a table with a column for each optimizer.

    Args:
        optimizers: the optimizer and the metric of each of these columns.
        metric: the metric that the user asks for, or empty.
    """
    if "metric" not in roles:
        metrics = dict.fromkeys(value.metric for value in optimizers.values())
        metric = chosen_metric(sheet.name, metric, list(metrics))
    optimizer_of_column = {}
    for column, value in optimizers.items():
        if "metric" in roles or value.metric == metric:
            optimizer_of_column[column] = value.optimizer
    sheet = _with_row_for_each(sheet, "optimizer", optimizer_of_column, has_steps="step" in roles)
    if not sheet.rows:
        raise UsageError(f"{sheet.name} has no values in {some([*optimizers])}")
    return LongTable(sheet, {**roles, "optimizer": [_added("optimizer")], "value": ["value"]}, metric)


def _with_row_for_each(sheet: Sheet, role: str, columns: Mapping[str, str], *, has_steps: bool) -> Sheet:
    """The table with a row for each value of some columns.

    Args:
        role: the role that the names of the columns have, "optimizer" or "seed".
        columns: the optimizer or the seed of each column.
        has_steps: whether a run has several rows, so that an empty cell does not stand for a run.
    """
    kinds = "optimizers or their runs" if role == "optimizer" else "seeds"
    sheet = sheet.with_note(f"{plural(len(columns), 'column')} taken as {kinds}: {some([*columns])}")
    rows = []
    for row in sheet.rows:
        for column, name in columns.items():
            if row.cells[column]:
                cells = {**row.cells, _added(role): name, "value": row.cells[column]}
                rows.append(replace(row, cells=cells))
    empty_cells = len(sheet.rows) * len(columns) - len(rows)
    if empty_cells > 0 and not has_steps:
        sheet = sheet.with_note(f"{plural(empty_cells, 'empty cell')} taken as a seed that was not run")
    return replace(sheet, rows=rows)


def _added(role: str) -> str:
    """The name of the column that is added to a table for a role."""
    return f"its {role}"


def _check_runs(sheet: Sheet, roles: Roles, columns: Sequence[str]) -> None:
    """Refuse a table without seeds if its runs differ in a column that may be an arena, a seed or a setting.

    Args:
        columns: the columns that have no role.
    """
    optimizer = roles.get("optimizer", [])
    arm = [*optimizer, *roles.get("arena", ())]
    for column in columns:
        texts = _texts_of_arms(sheet, arm, column)
        if not any(len(set(arm_texts)) > 1 for arm_texts in texts):
            continue  # the runs of each arm are equal in this column
        if _is_crossed(texts, is_numeric=has_numbers(sheet, column)) or VARIED.fullmatch(plain_name(column)):
            joined = "+".join([*optimizer, column])
            ways = f'seed="{column}", arena="{column}" or optimizer="{joined}"'
            raise UsageError(f"{sheet.name}: runs of one optimizer differ in {column}; give --columns {ways}")


def _texts_of_arms(sheet: Sheet, arm: Sequence[str], column: str) -> list[list[str]]:
    """The texts of a column for each arm. The columns in `arm` hold the names of the arms."""
    texts: dict[tuple[str, ...], list[str]] = {}
    for row in sheet.rows:
        names = tuple(row.cells[name] for name in arm)
        texts.setdefault(names, []).append(row.cells[column])
    return list(texts.values())


def _is_crossed(texts: Sequence[Sequence[str]], *, is_numeric: bool) -> bool:
    """Whether two or more arms all have the same texts in a column, as they would have the same seeds or arenas.

    A number that an arm has twice is not a seed, so then they are not crossed.
    """
    if is_numeric and any(len(set(arm_texts)) < len(arm_texts) for arm_texts in texts):
        return False
    different_sets = set(map(frozenset, texts))
    return len(texts) > 1 and len(different_sets) == 1
