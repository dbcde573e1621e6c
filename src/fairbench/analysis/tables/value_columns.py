"""The columns of the judged result: a value, or the mean, the spread and the number of several runs."""

from collections.abc import Mapping, Sequence

from fairbench.analysis.tables.column_names import VALUES, is_count, is_of_test, is_setting, plain_name
from fairbench.analysis.tables.columns import Roles, which_column
from fairbench.analysis.tables.labels import is_summary
from fairbench.analysis.tables.metric_names import chosen_metric, is_metric, statistic_of
from fairbench.analysis.tables.readers.sheet import Sheet
from fairbench.analysis.tables.wide import value_column


def columns_of_value(sheet: Sheet, roles: Roles, numeric: Sequence[str], metric: str) -> tuple[Mapping[str, str], str]:
    """The columns of the judged result, from "value", or from "mean", "std", "sem" and "n"; and the name of the metric.

    If no column has the role "value" or "mean" yet, the names of the columns of numbers tell which ones are judged.

    Args:
        roles: the columns that have a role already.
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
        return given, metric or given.get("value", "value")
    has_metric_column = "metric" in roles
    asked = metric
    if has_metric_column:
        asked = ""  # the metric that the user asks for is in some rows, and is not the name of a column
    by_metric = _columns_by_metric(numeric, may_be_any=asked != "")
    if not by_metric:
        raise which_column(sheet, "value")
    ways = ""
    if _may_be_arenas(list(by_metric)) and "arena" not in roles:
        ways = "; or --columns arena=columns, if they are one metric of several data sets"
    judged = chosen_metric(sheet.name, asked, list(by_metric), ways)
    found = _value_of_mean(by_metric[judged], roles)
    if has_metric_column:
        judged = metric
    return {**found, **given}, judged


def _may_be_arenas(columns: Sequence[str]) -> bool:
    """Whether all names of columns join a label, which may be a data set, and the same metric."""
    named = [value_column(column) for column in columns]
    metrics = {value.metric for value in named}
    return len(metrics) == 1 and "" not in metrics and all(value.label for value in named)


def _columns_by_metric(numeric: Sequence[str], *, may_be_any: bool) -> dict[str, dict[str, str]]:
    """The columns of each metric that may be judged: from "value", "mean", "std", "sem" or "n" to a column.

    Each metric has a value or a mean.

    Args:
        numeric: the columns of numbers without a role.
        may_be_any: whether any of them may be judged, since the user names a metric; otherwise only the likely ones.
    """
    likely = _likely_values(numeric)
    candidates = numeric
    if not may_be_any:
        candidates = likely
    by_metric = {column: {"value": column} for column in candidates}
    has_mean = "mean" in map(plain_name, numeric)
    for column in numeric:
        statistic = statistic_of(column)
        if statistic is not None:
            role, stem = statistic
            metric = _described_metric(role, stem, likely, has_mean=has_mean)
            by_metric.setdefault(metric, {})[role] = column
    complete = {name: parts for name, parts in by_metric.items() if "value" in parts or "mean" in parts}
    if len(complete) > 1 and set(complete.get("value", ())) == {"mean"}:
        del complete["value"]  # a mean without a metric in its name, such as "Average", is that of other columns
    if complete:
        return complete
    # no column is likely to be judged: any with the word of a metric in its name may be
    return {column: {"value": column} for column in numeric if is_metric(column)}


def _value_of_mean(parts: Mapping[str, str], roles: Roles) -> Mapping[str, str]:
    """The columns of a metric. A mean without a spread and without a number of runs counts as one value."""
    if set(parts) == {"mean"} and "n" not in roles:
        return {"value": parts["mean"]}
    return parts


def _likely_values(numeric: Sequence[str]) -> list[str]:
    """The columns that are probably judged.

    It is the column with the surest name in VALUES. Without one, they are the columns named as metrics; without these,
    all others but settings and counts. Statistics, summaries of columns and results of tests are then left out.
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
    """The metric that a statistic describes: the column of its values, if a spread or a count has one; or the stem.

    Args:
        role: the statistic: "mean", "std", "sem" or "n".
        stem: the name of its column without the statistic, such as "acc" of "acc_std"; "value" for a column "std".
        values: the columns that are probably judged.
        has_mean: whether a column is called "mean". A column that is only "std" then describes this mean.
    """
    if role == "mean":
        return stem
    if stem == "value" and len(values) == 1 and not has_mean:
        return values[0]
    for column in values:
        if plain_name(column) == stem:
            return column
    return stem
