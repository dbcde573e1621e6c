"""A table of any layout as one with a value, or a summary, in each row."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fairbench.analysis.tables.column_names import (
    OF_METRIC,
    OF_SEED,
    SUMMARY,
    VALUES,
    VARIED,
    chosen_metric,
    direction_of,
    is_setting,
    plain_name,
)
from fairbench.analysis.tables.columns import Columns, Roles, has_numbers, which_column
from fairbench.analysis.tables.readers.sheet import Row, Sheet
from fairbench.analysis.tables.value_columns import columns_of_value
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some


@dataclass(frozen=True)
class LongTable:
    """A table with one value, or one summary of several runs, in each row.

    Attributes:
        roles: the columns of each role.
        metric: the name of what is judged; with a column of metrics what the user asks for, or empty.
    """

    sheet: Sheet
    roles: Roles
    metric: str


class ValueColumn(NamedTuple):
    """What a column of values has by its name."""

    optimizer: str
    metric: str


def long_table(columns: Columns, *, alone: bool) -> LongTable:
    """The table with a row for each value, which may have been in columns of optimizers, or of seeds.

    Args:
        alone: whether a table of one optimizer is judged, which needs no column for it.

    Raises:
        UsageError: a column is missing, or may be more than one.
    """
    roles = dict(columns.roles)
    metric = columns.metric
    optimizers: dict[str, ValueColumn] = {}
    if columns.run_names is None and "optimizer" not in roles:
        optimizers = _columns_of_optimizers(columns, fewest=1 if alone else 2)
    sheet = _without_summaries(columns.sheet, roles)
    if optimizers:
        return _of_optimizers(sheet, roles, optimizers, metric)
    seeds = _columns_of_seeds(columns.numeric)
    if len(seeds) > 1 and "seed" not in roles and "value" not in roles:
        sheet = _with_row_for_each(sheet, "seed", seeds, has_steps="step" in roles)
        roles |= {"seed": [_added("seed")], "value": ["value"]}
    if columns.run_names is not None:
        roles.setdefault("optimizer", [columns.run_names])
    if "optimizer" not in roles and not alone:
        raise which_column(sheet, "optimizer", "or a table with a column for each optimizer; ")
    of_value, metric = columns_of_value(sheet, roles, columns.numeric, metric)
    if "seed" not in roles and "step" not in roles:
        unexplained = [column for column in columns.without_role if column not in of_value.values()]
        _check_runs(sheet, roles, unexplained)
    for role, column in of_value.items():
        roles[role] = [column]
    if not sheet.rows:
        raise UsageError(f"{sheet.name} has no values in its rows")
    return LongTable(sheet, roles, metric)


def _columns_of_seeds(columns: Sequence[str]) -> dict[str, str]:
    """The seed of each column that has the values of one."""
    seeds = {}
    for column in columns:
        found = OF_SEED.fullmatch(column)
        if found:
            seeds[column] = found[1]
    return seeds


def _columns_of_optimizers(columns: Columns, fewest: int) -> dict[str, ValueColumn]:
    """The optimizer and the metric of each column, if the columns are optimizers."""
    found: dict[str, ValueColumn] = {}
    for column in columns.numeric:
        name, metric = _name_and_metric(column)
        if not metric and direction_of(column):
            return {}  # a column of a metric, so that the others are no optimizers
        if plain_name(column) not in VALUES and not is_setting(column):
            optimizer = re.sub(r"^optimi[sz]er: ", "", name)
            found[column] = ValueColumn(optimizer, metric or "value")
    if len(found) < fewest:
        return {}
    for column in columns.without_role:
        if column in columns.numeric:
            continue
        has_several_texts = len(set(columns.sheet.column(column))) > 1
        if has_several_texts and not column.startswith("column "):
            return {}
    return found


def _name_and_metric(column: str) -> tuple[str, str]:
    """The name of an optimizer and that of a metric, which may be empty."""
    name, dash, metric = column.rpartition(" - ")  # as W&B names the runs of a chart
    if dash:
        return name, metric
    found = OF_METRIC.fullmatch(column)
    if found:
        return found[1], found[2]
    return column, ""


def _without_summaries(sheet: Sheet, roles: Roles) -> Sheet:
    """The table without the rows of means and other summaries."""
    names = [sheet.columns[0], *roles.get("seed", ())]
    kept = [row for row in sheet.rows if not _is_summary(row, names)]
    skipped = len(sheet.rows) - len(kept)
    if not skipped:
        return sheet
    return replace(sheet, rows=kept).with_note(f"{plural(skipped, 'row')} of means or other summaries skipped")


def _is_summary(row: Row, columns: Sequence[str]) -> bool:
    return any(SUMMARY.fullmatch(row.cells[column].casefold()) for column in columns)


def _of_optimizers(sheet: Sheet, roles: Roles, optimizers: Mapping[str, ValueColumn], metric: str) -> LongTable:
    """The long table of one with a column for each optimizer."""
    if "metric" not in roles:
        metrics = dict.fromkeys(value.metric for value in optimizers.values())
        metric = chosen_metric(sheet.name, metric, list(metrics))
    judged = {}
    for column, value in optimizers.items():
        if "metric" in roles or value.metric == metric:
            judged[column] = value.optimizer
    sheet = _with_row_for_each(sheet, "optimizer", judged, has_steps="step" in roles)
    if not sheet.rows:
        raise UsageError(f"{sheet.name} has no values in {some([*optimizers])}")
    return LongTable(sheet, {**roles, "optimizer": [_added("optimizer")], "value": ["value"]}, metric)


def _with_row_for_each(sheet: Sheet, role: str, columns: Mapping[str, str], *, has_steps: bool) -> Sheet:
    """The table with a row for each value of some columns, which are an optimizer's or a seed's each."""
    kinds = "optimizers or their runs" if role == "optimizer" else "seeds"
    sheet = sheet.with_note(f"{plural(len(columns), 'column')} taken as {kinds}: {some([*columns])}")
    rows = []
    for row in sheet.rows:
        for column, name in columns.items():
            if row.cells[column]:
                cells = {**row.cells, _added(role): name, "value": row.cells[column]}
                rows.append(replace(row, cells=cells))
    blank = len(sheet.rows) * len(columns) - len(rows)
    if blank and not has_steps:
        sheet = sheet.with_note(f"{plural(blank, 'empty cell')} taken as a seed that was not run")
    return replace(sheet, rows=rows)


def _added(role: str) -> str:
    """The name of the column that a table gets for a role."""
    return f"its {role}"


def _check_runs(sheet: Sheet, roles: Roles, columns: Sequence[str]) -> None:
    """Refuse runs without seeds that differ in what may be an arena, a seed or a setting."""
    optimizer = roles.get("optimizer", [])
    arm = [*optimizer, *roles.get("arena", ())]
    for column in columns:
        texts = _texts_of_arms(sheet, arm, column)
        if not any(len(set(of_arm)) > 1 for of_arm in texts):
            continue
        if _is_crossed(texts, is_numeric=has_numbers(sheet, column)) or VARIED.fullmatch(plain_name(column)):
            joined = "+".join([*optimizer, column])
            ways = f'seed="{column}", arena="{column}" or optimizer="{joined}"'
            raise UsageError(f"{sheet.name}: runs of one optimizer differ in {column}; give --columns {ways}")


def _texts_of_arms(sheet: Sheet, arm: Sequence[str], column: str) -> list[list[str]]:
    """The texts of a column in each arm, which the columns in `arm` name."""
    texts: dict[tuple[str, ...], list[str]] = {}
    for row in sheet.rows:
        names = tuple(row.cells[name] for name in arm)
        texts.setdefault(names, []).append(row.cells[column])
    return list(texts.values())


def _is_crossed(texts: Sequence[Sequence[str]], *, is_numeric: bool) -> bool:
    """Whether all of several arms have the same texts, as they have the same seeds; numbers only once each."""
    if is_numeric and any(len(set(of_arm)) < len(of_arm) for of_arm in texts):
        return False
    return len(texts) > 1 and len(set(map(frozenset, texts))) == 1
