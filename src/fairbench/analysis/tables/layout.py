"""Conversion of a table of any layout into one with a value, or a summary, in each row."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairbench.analysis.tables.cell_numbers import pair_of
from fairbench.analysis.tables.column_names import has_no_name
from fairbench.analysis.tables.columns import Columns, Roles, which_optimizer
from fairbench.analysis.tables.labels import is_summary
from fairbench.analysis.tables.readers.sheet import Row, Sheet
from fairbench.analysis.tables.runs import check_runs, with_rows_as_steps
from fairbench.analysis.tables.seed_names import are_seeds, seed_in
from fairbench.analysis.tables.value_columns import columns_of_value
from fairbench.analysis.tables.wide import Wide, wide, with_row_for_each
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some

NO_DEVIATION = re.compile(r"\bCIs?\b|confidence|\bSEM?\b|std\.? ?err|standard error|min.{1,3}max|range|IQR")
"""What a heading says of the second number of a cell if it is no standard deviation."""


@dataclass(frozen=True)
class LongTable:
    """A table with one value, or one summary of several runs, in each row.

    Attributes:
        roles: the columns of each role.
        metric: the name of the judged metric. With a column of metrics, the metric that the user asks for, or empty.
        meanings: the columns of each role of the table as it came, in words.
        left_out: the columns and the rows of summaries that count for nothing.
    """

    sheet: Sheet
    roles: Roles
    metric: str
    meanings: Mapping[str, str]
    left_out: Sequence[str]


def long_table(columns: Columns, *, one_optimizer_is_enough: bool) -> LongTable:
    """The table with a row for each value. Before, each optimizer, arena or seed may have had a column of values.

    Args:
        one_optimizer_is_enough: whether a table of one optimizer can be judged. It needs no column of optimizers.

    Raises:
        UsageError: a column is missing, may be more than one, or does not tell what it is.
    """
    roles = dict(columns.roles)
    fewest = 2
    if one_optimizer_is_enough:
        fewest = 1
    table = wide(columns, fewest)
    has_column_for_each_optimizer = table is not None and table.role == "optimizer"
    if not has_column_for_each_optimizer:
        if columns.run_names is not None:
            roles.setdefault("optimizer", [columns.run_names])
        if "optimizer" not in roles and not one_optimizer_is_enough:
            raise which_optimizer(columns)
    roles |= _arena_without_name(columns, roles, table)
    sheet, left_out = _without_summaries(columns, roles)
    meanings = {role: "+".join(names) for role, names in roles.items()}
    metric = columns.metric
    if table is None:
        column_of_role, metric = columns_of_value(sheet, roles, columns.numeric, metric)
        for role, column in column_of_role.items():
            roles[role] = [column]
            meanings[role] = column
        wide_columns = []
        value_columns = roles.get("value", [])
    else:
        sheet, roles, metric = with_row_for_each(sheet, table, roles, metric)
        names = table.labels
        if table.role == "seed":
            names = list(table.columns)
        meanings[table.role] = f"the columns {some(names)}"
        wide_columns = list(table.columns)
        value_columns = wide_columns
    if not sheet.rows:
        raise UsageError(f"{sheet.name}: no values are in its rows")
    _check_spread(sheet, roles)
    _check_headings(columns.sheet, value_columns)
    if columns.row_role == "step":
        sheet, roles = with_rows_as_steps(sheet, roles)
    judged = {column for names in roles.values() for column in names}
    explained = {*judged, *wide_columns}
    unexplained = [column for column in columns.without_role if column not in explained]
    sheet = check_runs(sheet, roles, unexplained, columns.row_role)
    if columns.row_role:
        meanings[columns.row_role] = "the rows"
    left_out = [*roles.get("ignore", ()), *unexplained, *left_out]
    return LongTable(sheet, roles=roles, metric=metric, meanings=meanings, left_out=left_out)


def _check_spread(sheet: Sheet, roles: Roles) -> None:
    """Refuse means of several runs without a spread, neither in columns nor in their cells."""
    if "n" not in roles or any(role in roles for role in ("seed", "std", "sem")):
        return
    column = roles["n"][0]
    counts = {row.cells.get(column, column) for row in sheet.rows}  # n may be a number in place of a column
    are_single_runs = counts <= {"", "1", "1.0"}
    values = roles.get("value", roles.get("mean", []))
    has_spread = any(pair_of(text) for name in values for text in sheet.column(name))
    if has_spread or are_single_runs:
        return
    way = "leave n out"
    if column in sheet.columns:
        way = f'ignore="{column}"'
    raise UsageError(
        f"{sheet.name}: means of several runs, by {column}, have no spread; give --columns std=NAME or sem=NAME, or "
        f"{way} to take each mean as one value"
    )


def _check_headings(sheet: Sheet, values: Sequence[str]) -> None:
    """Refuse cells with two numbers below a heading that says that the second one is no standard deviation."""
    for column in values:
        if NO_DEVIATION.search(column) and any(pair_of(text) for text in sheet.column(column)):
            raise UsageError(
                f"{sheet.name}: by the heading {column!r}, the second number of a cell is no standard deviation; give "
                "columns with mean, std or sem, and n"
            )


def _arena_without_name(columns: Columns, roles: Roles, table: Wide | None) -> Roles:
    """The arenas in the only column of words that has no role, if the table has no arenas elsewhere; otherwise empty.

    In a table with a column for each optimizer, the column may have any name. Otherwise it must have none.

    Raises:
        UsageError: a column without a name has several texts, and no role is left for it.
    """
    candidates = []
    without_name = []
    for column in columns.without_role:
        is_constant = len(set(columns.sheet.column(column))) == 1
        if column in columns.numeric or is_constant:
            continue
        if has_no_name(column):
            without_name.append(column)
        elif table is not None and table.role == "optimizer":
            candidates.append(column)
    has_arenas = "arena" in roles or (table is not None and table.role == "arena") or "metric" in roles
    found = without_name or candidates
    if len(found) == 1 and not has_arenas:
        return {"arena": found}
    if without_name:
        column = without_name[0]
        texts = list(dict.fromkeys(columns.sheet.column(column)))
        ways = " or ".join(f'--columns {role}="{column}"' for role in ("arena", "seed", "ignore"))
        raise UsageError(f"{columns.sheet.name}: what is {column}? Give {ways}; it has {some(texts)}")
    return {}


def _without_summaries(columns: Columns, roles: Roles) -> tuple[Sheet, list[str]]:
    """The table without the rows of means and other summaries, and these rows in words.

    Raises:
        UsageError: a text among seeds that are numbers is no word for a summary.
    """
    sheet = columns.sheet
    # a further column of a role is a setting, in which "sum" and "mean" may be ways to combine
    named = [column for role in ("arena", "optimizer", "seed") for column in roles.get(role, ())[:1]]
    first = sheet.columns[0]
    if first not in columns.numeric and len(set(sheet.column(first))) > 1:  # the same word in all rows marks none
        named.append(first)
    kept = []
    words = []
    for row in sheet.rows:
        summaries = [row.cells[column] for column in named if is_summary(row.cells[column])]
        if summaries:
            words.append(summaries[0])
        else:
            kept.append(row)
    for column in roles.get("seed", ()):
        _check_seeds(kept, column)
    if not words:
        return sheet, []
    distinct = some(list(dict.fromkeys(words)))
    if not kept:
        raise UsageError(f"{sheet.name}: all rows are summaries ({distinct}); add the runs")
    return replace(sheet, rows=kept), [f"{plural(len(words), 'row')} of summaries ({distinct})"]


def _check_seeds(rows: Sequence[Row], column: str) -> None:
    """Refuse a text in a column of seeds in which half of the cells or more are numbers."""
    texts = [row.cells[column] for row in rows]
    numbers = sum(bool(seed_in(text)) for text in texts)
    if are_seeds(texts) or 2 * numbers < len(texts):
        return
    for row in rows:
        text = row.cells[column]
        if text and not seed_in(text):
            raise UsageError(f"{row.location}: {text!r} is no seed, as the other rows have; leave the row out")
