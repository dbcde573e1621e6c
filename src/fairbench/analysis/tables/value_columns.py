"""The columns of the judged result: a value, or the mean, the spread and the number of several runs."""

from collections.abc import Mapping, Sequence

from fairbench.analysis.tables.column_names import VALUES, is_count, is_of_test, is_setting, plain_name
from fairbench.analysis.tables.columns import Roles, which_column
from fairbench.analysis.tables.labels import is_summary
from fairbench.analysis.tables.metric_names import chosen_metric, is_metric, statistic_of
from fairbench.analysis.tables.readers.sheet import Sheet


def columns_of_value(sheet: Sheet, roles: Roles, numeric: Sequence[str], metric: str) -> tuple[Mapping[str, str], str]:
    """The column of the value, or those of mean, std, sem and n, by these roles; and the name of the metric.

    Args:
        numeric: the columns of numbers without a role.
        metric: the metric that the user asks for, or empty.

    Raises:
        UsageError: no column can have the value, or several can, and the user does not say which.
    """
    given: dict[str, str] = {}
    for role in ("value", "mean", "std", "sem"):
        if role in roles:
            given[role] = roles[role][0]
    if "value" in given or "mean" in given:
        # nothing is left to find
        return given, metric or given.get("value", "value")
    has_metric_column = "metric" in roles
    values = _likely_values(numeric)
    candidates = values
    if metric and not has_metric_column:
        # the user may ask for any column
        candidates = list(numeric)
    # with metrics in rows or none asked for, only likely columns count
    by_metric = {column: {"value": column} for column in candidates}
    # add means and spreads to the metric that they describe
    for column in numeric:
        statistic = statistic_of(column)
        if statistic is not None:
            role, stem = statistic
            described = _described_metric(role, stem, values, has_mean="mean" in map(plain_name, numeric))
            by_metric.setdefault(described, {})[role] = column
    complete = {name: parts for name, parts in by_metric.items() if "value" in parts or "mean" in parts}
    if len(complete) > 1 and set(complete.get("value", ())) == {"mean"}:
        del complete["value"]  # a mean of other columns, as "Average"
    if not complete:
        # otherwise, any column named as a metric
        complete = {column: {"value": column} for column in numeric if is_metric(column)}
    if not complete:
        raise which_column(sheet, "value")
    if has_metric_column:
        # the metric that the user asks for is one of the rows, not a column
        wanted_column = chosen_metric(sheet.name, "", list(complete))
        return {**_value_of_mean(complete[wanted_column], roles), **given}, metric
    wanted_column = chosen_metric(sheet.name, metric, list(complete))
    return {**_value_of_mean(complete[wanted_column], roles), **given}, wanted_column


def _value_of_mean(parts: Mapping[str, str], roles: Roles) -> Mapping[str, str]:
    """The columns of a metric. A mean without a spread and without a number of runs counts as one value."""
    if set(parts) == {"mean"} and "n" not in roles:
        return {"value": parts["mean"]}
    return parts


def _likely_values(numeric: Sequence[str]) -> list[str]:
    """The columns that are probably judged.

    First choice: a name in VALUES; then names of metrics; then all others. Settings, counts and statistics never
    count.
    """
    for name in VALUES:
        for column in numeric:
            if plain_name(column) == name:
                return [column]
    metrics = []
    others = []
    for column in numeric:
        if statistic_of(column) is not None or (is_summary(column) and not is_metric(column)):
            continue
        if is_of_test(column):
            continue
        if is_metric(column):
            metrics.append(column)
        elif not is_setting(column) and not is_count(column):
            others.append(column)
    return metrics or others


def _described_metric(role: str, stem: str, values: Sequence[str], *, has_mean: bool) -> str:
    """The metric that a statistic describes.

    For a spread it is the column of its values, if there is one; otherwise it is the stem.

    Args:
        has_mean: whether a column is called "mean", so that a spread without another name is that of it.
    """
    if role == "mean":
        return stem
    is_of_only_value = stem == "value" and len(values) == 1 and not has_mean
    for column in values:
        if plain_name(column) == stem or is_of_only_value:
            return column
    return stem
