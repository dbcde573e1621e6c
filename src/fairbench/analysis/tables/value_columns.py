"""Which columns have what is judged: a value, or the mean, the deviation and the number of several runs."""

from collections.abc import Mapping, Sequence

from fairbench.analysis.tables.column_names import (
    VALUES,
    chosen_metric,
    direction_of,
    is_setting,
    plain_name,
    statistic_of,
)
from fairbench.analysis.tables.columns import Roles, which_column
from fairbench.analysis.tables.readers.sheet import Sheet


def columns_of_value(sheet: Sheet, roles: Roles, numeric: Sequence[str], metric: str) -> tuple[Mapping[str, str], str]:
    """The columns of the value, or of mean, std, sem and n; and the name of the metric.

    Args:
        numeric: the columns of numbers without a role.
        metric: the metric that the user asks for, or empty.
    """
    given: dict[str, str] = {}
    for role in ("value", "mean", "std", "sem"):
        if role in roles:
            given[role] = roles[role][0]
    if "value" in given or "mean" in given:
        return given, metric or given.get("value", "value")
    has_tags = "metric" in roles
    values = _likely_values(numeric)
    candidates = numeric if metric and not has_tags else values
    by_metric = {column: {"value": column} for column in candidates}
    for column in numeric:
        statistic = statistic_of(column)
        if statistic is not None:
            role, stem = statistic
            of = _value_of_statistic(role, stem, values)
            by_metric.setdefault(of, {})[role] = column
    complete = {name: parts for name, parts in by_metric.items() if "value" in parts or "mean" in parts}
    if not complete:
        complete = {column: {"value": column} for column in numeric if direction_of(column)}
    if not complete:
        raise which_column(sheet, "value")
    asked = "" if has_tags else metric
    name = chosen_metric(sheet.name, asked, list(complete))
    return {**complete[name], **given}, metric if has_tags else name


def _likely_values(numeric: Sequence[str]) -> list[str]:
    """The columns of what is judged: named so, or else named as a metric, or else neither a setting nor a statistic."""
    for name in VALUES:
        for column in numeric:
            if plain_name(column) == name:
                return [column]
    metrics = []
    others = []
    for column in numeric:
        if statistic_of(column) is not None:
            continue
        if direction_of(column):
            metrics.append(column)
        elif not is_setting(column):
            others.append(column)
    return metrics or others


def _value_of_statistic(role: str, stem: str, values: Sequence[str]) -> str:
    """The name of the metric that a statistic belongs to: that of a column of values, if it is one's spread."""
    if role == "mean":
        return stem
    for column in values:
        if plain_name(column) == stem or (stem == "value" and len(values) == 1):
            return column
    return stem
