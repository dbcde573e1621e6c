"""The names of runs, in a column or in the names of columns: their parts say the optimizer, the arena and the seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairbench.analysis.tables.column_names import RUNS, plain_name
from fairbench.analysis.tables.columns import Columns
from fairbench.analysis.tables.labels import is_data_set
from fairbench.analysis.tables.question import Question
from fairbench.analysis.tables.readers.name_parts import (
    have_seeds,
    labels_by_pattern,
    labels_of_data_sets,
    labels_of_grid,
)
from fairbench.analysis.tables.readers.sheet import Row, Sheet
from fairbench.analysis.tables.seed_names import are_seeds, names_without_seed, seeds_of_names
from fairbench.analysis.tables.wide import ValueColumn, value_column, wide
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some
from fairbench.common.grouping import grouped

Label = Mapping[str, str]
"""What the name of a run says, by the names of columns."""


@dataclass(frozen=True)
class RunNames:
    """The names of the runs of a table.

    Attributes:
        names: each name once, in the order of the table.
        column: the column that has them; empty if they are in the names of columns.
        values: the columns of values with a name of a run in their names; empty if a column has the names.
    """

    names: Sequence[str]
    column: str
    values: Mapping[str, ValueColumn]


def with_parts_of_names(sheet: Sheet, asked: Question) -> Sheet:
    """The table with columns for what the names of its runs say; as it is if they say nothing.

    The pattern of the user tells the parts. Without one, the parts must form a grid, as those of the paths of files do.
    A column of values for each run becomes a row for each value of a run.

    Raises:
        UsageError: the pattern is wrong, is not in a name, or the table has no names of runs for it; or the parts do
            not say which one is the optimizer.
    """
    if asked.name and not sheet.is_joined:
        # other columns that the user names are those of the pattern, which the table does not have yet
        given = {role: column for role, column in asked.columns.items() if column in sheet.columns}
        columns = Columns(sheet, given=given, metric="")
        named = _in_columns(columns) or [_in_names_of_columns(sheet)]
        return _with_origins(columns, named[0], labels_by_pattern(named[0].names, asked.name))
    columns = Columns(sheet, given=asked.columns, metric=asked.metric)
    candidates = _in_columns(columns) or _in_wide_columns(columns)
    for runs in candidates:
        labels = _labels_of_grid(columns, runs) or _labels_of_data_sets(columns, runs)
        if labels:
            return _with_origins(columns, runs, _without_known(columns, runs, labels))
    if not candidates:
        return sheet
    return _with_seeds(columns, candidates[0])


def _in_columns(columns: Columns) -> list[RunNames]:
    """The names of runs in a column that is called so, and those in the column of the optimizers."""
    optimizers = columns.roles.get("optimizer", [])
    if len(optimizers) > 1:
        return []  # joined columns are settings
    called_so = [column for column in columns.sheet.columns if plain_name(column) in RUNS]
    free = [column for column in called_so if column in (columns.run_names, *optimizers)]
    found = []
    for column in dict.fromkeys([*free, *optimizers]):
        texts = columns.sheet.column(column)
        if not are_seeds(texts):
            found.append(RunNames(names=list(dict.fromkeys(texts)), column=column, values={}))
    return found


def _in_wide_columns(columns: Columns) -> list[RunNames]:
    """The names of runs in the names of columns; none for a table without a column of values for each optimizer."""
    table = wide(columns, fewest=2)
    if table is None or table.role != "optimizer":
        return []
    return [RunNames(names=table.labels, column="", values=table.columns)]


def _in_names_of_columns(sheet: Sheet) -> RunNames:
    """The names before the metrics of all columns that join the two, as W&B names the runs of a chart.

    Raises:
        UsageError: no column does.
    """
    columns = {column: value_column(column) for column in sheet.columns}
    values = {column: value for column, value in columns.items() if value.label and value.metric}
    if not values:
        raise UsageError(
            "--name is for the paths of several files, or for names of runs, in a column as Name or before the metric "
            f"in names of columns; there are neither in {sheet.name}; leave it out"
        )
    labels = [value.label for value in values.values()]
    return RunNames(names=list(dict.fromkeys(labels)), column="", values=values)


def _labels_of_grid(columns: Columns, runs: RunNames) -> list[dict[str, str]]:
    """What the parts of the names say if they form a grid; otherwise empty.

    Names without seeds, and those in a column of optimizers, may be those of optimizers. So their other parts must be
    well-known data sets.

    Raises:
        UsageError: the parts of names with seeds do not say which one is the optimizer.
    """
    may_be_optimizers = not have_seeds(runs.names) or plain_name(runs.column) not in ("", *RUNS)
    try:
        labels = labels_of_grid(runs.names, runs.names, f"{columns.sheet.name}: the names of its runs")
    except UsageError:
        if may_be_optimizers or not _say_the_optimizer(columns, runs):
            return []
        raise
    if may_be_optimizers and not all(is_data_set(label["arena"]) for label in labels):
        return []
    return labels


def _labels_of_data_sets(columns: Columns, runs: RunNames) -> list[dict[str, str]]:
    """The data sets and seeds of names next to a column of optimizers; empty without several data sets."""
    if _say_the_optimizer(columns, runs) or not runs.column:
        return []
    return labels_of_data_sets(runs.names)


def _say_the_optimizer(columns: Columns, runs: RunNames) -> bool:
    """Whether the names must say the optimizer, since no other column does."""
    return columns.roles.get("optimizer", [runs.column]) == [runs.column]


def _without_known(columns: Columns, runs: RunNames, labels: Sequence[Label]) -> list[Label]:
    """What the names say, without what other columns say.

    Raises:
        UsageError: the names say several data sets in one arena of a column.
    """
    known = {role for role, names in columns.roles.items() if names != [runs.column]}
    arenas = columns.roles.get("arena", [])
    if arenas and runs.column and "arena" in labels[0]:
        label_of = dict(zip(runs.names, labels, strict=True))
        arena = arenas[0]
        parts_of = grouped((row.cells[arena], label_of[row.cells[runs.column]]["arena"]) for row in columns.sheet.rows)
        parts = next((set(parts) for parts in parts_of.values() if len(set(parts)) > 1), None)
        if parts:
            raise UsageError(
                f"{columns.sheet.name}: the names in {runs.column} say {some(sorted(parts))}, which {arena} does not "
                f'tell apart; give --columns ignore="{arena}" if the names are right, or ignore="{runs.column}"'
            )
    return [{role: text for role, text in label.items() if role not in known} for label in labels]


def _with_origins(columns: Columns, runs: RunNames, labels: Sequence[Label]) -> Sheet:
    """The table with a column for each part of the names of its runs, and with what the first name says."""
    sheet = _with_labels(columns, runs, labels)
    origins = {_column_of(columns, runs, part): text for part, text in labels[0].items()}
    example = sheet.example or f"name {runs.names[0]}"
    return replace(sheet, origins={**origins, **sheet.origins}, example=example)


def _column_of(columns: Columns, runs: RunNames, part: str) -> str:
    """The column for a part of the names: that of the names if the user says that it has the optimizers."""
    if part == "optimizer" and columns.given.get("optimizer") == runs.column:
        return runs.column
    return part


def _with_labels(columns: Columns, runs: RunNames, labels: Sequence[Label]) -> Sheet:
    """The table with a column for each part of the names of its runs, and a row for each value of a run."""
    sheet = columns.sheet
    label_of: dict[str, Label] = {}
    for name, label in zip(runs.names, labels, strict=True):
        label_of[name] = {_column_of(columns, runs, part): text for part, text in label.items()}
    added = dict.fromkeys(column for label in label_of.values() for column in label)
    replaced = {*added, *runs.values}
    if "optimizer" in added:
        replaced.add(runs.column)
    kept = [column for column in sheet.columns if column not in replaced]
    if runs.column:
        rows = [replace(row, cells={**row.cells, **label_of[row.cells[runs.column]]}) for row in sheet.rows]
        return replace(sheet, columns=[*added, *kept], rows=rows)
    metrics = dict.fromkeys(_metric_of(value) for value in runs.values.values())
    rows = [row for name in runs.names for row in _rows_of_run(sheet, runs, name, label_of[name])]
    return replace(sheet, columns=[*added, *kept, *metrics], rows=rows)


def _metric_of(value: ValueColumn) -> str:
    """The name of the column of a metric, and of its statistic."""
    metric = value.metric or "value"
    if value.statistic == "value":
        return metric
    return f"{metric} {value.statistic}"


def _rows_of_run(sheet: Sheet, runs: RunNames, name: str, label: Label) -> list[Row]:
    """The rows in which a run has a value. Without any, it is the last row, so that the run is not lost sight of."""
    columns = {column: _metric_of(value) for column, value in runs.values.items() if value.label == name}
    empty = dict.fromkeys((_metric_of(value) for value in runs.values.values()), "")
    rows = []
    for row in sheet.rows:
        others = {column: text for column, text in row.cells.items() if column not in runs.values}
        texts = {metric: row.cells[column] for column, metric in columns.items()}
        rows.append(Row({**others, **empty, **texts, **label}, row.location))
    filled = [row for row in rows if any(row.cells[metric] for metric in columns.values())]
    return filled or rows[-1:]


def _with_seeds(columns: Columns, runs: RunNames) -> Sheet:
    """The table with the optimizers and the seeds that the names in a column say, if each of them ends in a seed.

    Raises:
        UsageError: some names seem to end in a seed, and others do not.
    """
    _check_seeds(columns, runs)
    if not runs.column or not _say_the_optimizer(columns, runs):
        return columns.sheet
    seeds = seeds_of_names(runs.names)
    if len(seeds) < len(runs.names):
        return columns.sheet
    labels: list[Label] = [{"optimizer": seeds[name][0], "seed": seeds[name][1]} for name in runs.names]
    sheet = _with_labels(columns, runs, _without_known(columns, runs, labels))
    return sheet.with_note(note_on_seeds(seeds))


def _check_seeds(columns: Columns, runs: RunNames) -> None:
    """Raise UsageError if some names of runs that say the optimizer have a seed, and others lack it."""
    if "seed" in columns.roles or "optimizer" in columns.given or not _say_the_optimizer(columns, runs):
        return
    without = names_without_seed(runs.names)
    if without:
        example = next(name for name in runs.names if name not in without)
        column = runs.column or "columns"
        raise UsageError(
            f"{columns.sheet.name}: no seed in {some(without)}, and others have one, such as {example}; give each run "
            f"its seed, leave it out, or say that these are names of optimizers: --columns optimizer={column}"
        )


def note_on_seeds(seeds: Mapping[str, tuple[str, str]]) -> str:
    """What the user must know of names of runs that were split into an optimizer and a seed."""
    optimizers = list(dict.fromkeys(optimizer for optimizer, _ in seeds.values()))
    optimizer_count = plural(len(optimizers), "optimizer")
    name_count = plural(len(seeds), "name")
    return f"{name_count} taken as seeds of {optimizer_count} by the numbers at their ends: {some(optimizers)}"
