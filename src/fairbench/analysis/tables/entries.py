"""The values of a table with their arenas, optimizers and seeds, as texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairbench.analysis.tables.columns import Roles
from fairbench.analysis.tables.layout import LongTable
from fairbench.analysis.tables.metric_names import chosen_metric, is_metric
from fairbench.analysis.tables.readers.sheet import Row
from fairbench.analysis.tables.run_names import note_on_seeds
from fairbench.analysis.tables.seed_names import seeds_of_names
from fairbench.common.errors import UsageError


@dataclass(frozen=True)
class Entry:
    """A value of a run at a step, or the summary of several runs.

    Attributes:
        seed: the seed as the table spells it; None in a table without seeds.
        texts: the text of each role: value, or mean with std or sem and n, and every other role of the table.
    """

    arena: str
    optimizer: str
    seed: str | None
    texts: Mapping[str, str]
    row: Row


@dataclass(frozen=True)
class Entries:
    """The entries of a table in its order, the name of their metric, and notes for the user.

    Attributes:
        other_metrics: the columns of metrics that are not judged.
    """

    table: str
    entries: Sequence[Entry]
    metric: str
    notes: Sequence[str]
    other_metrics: Sequence[str]

    @property
    def optimizers(self) -> list[str]:
        """The optimizers in the order of the table."""
        return list(dict.fromkeys(entry.optimizer for entry in self.entries))


def entries_of(table: LongTable) -> Entries:
    """The entries of one metric: the one that is asked for, or the only one.

    Raises:
        UsageError: an arena, an optimizer or a seed is empty; the metric is unknown; or there are several metrics and
            none is asked for.
    """
    sheet = table.sheet
    metric = table.metric
    notes = list(sheet.notes)
    entries = [_entry(row, table.roles, sheet.name, metric) for row in sheet.rows]
    if "metric" in table.roles:
        metrics = dict.fromkeys(entry.texts["metric"] for entry in entries)
        metric = chosen_metric(sheet.name, metric, list(metrics))
        entries = [entry for entry in entries if entry.texts["metric"] == metric]
    has_names_of_runs = len(table.roles.get("optimizer", ())) <= 1  # joined columns are settings
    if "seed" not in table.roles and has_names_of_runs:
        entries = _with_seeds_of_names(entries, notes)
    other_metrics = [column for column in table.left_out if column in sheet.columns and is_metric(column)]
    return Entries(table=sheet.name, entries=entries, metric=metric, notes=notes, other_metrics=other_metrics)


def _entry(row: Row, roles: Roles, table: str, metric: str) -> Entry:
    """The entry of a row. Without a column of arenas, the metric is the arena; without optimizers, the table is."""
    texts = {}
    for role, columns in roles.items():
        # n may hold a number from the user instead of a column name: it is then its own text
        texts[role] = "/".join(row.cells.get(column, column) for column in columns)
    # the mean of a summary is its value
    texts["value"] = texts.get("mean", texts.get("value", ""))
    for role in ("arena", "optimizer", "seed"):
        if texts.get(role) == "":
            raise UsageError(f"{row.location}: the {role} is empty; fill it in, or leave the row out")
    return Entry(
        arena=texts.get("arena", texts.get("metric", metric)),
        optimizer=texts.get("optimizer", table),
        seed=texts.get("seed"),
        texts=texts,
        row=row,
    )


def _with_seeds_of_names(entries: Sequence[Entry], notes: list[str]) -> list[Entry]:
    """Split the name of each run into an optimizer and the seed at its end.

    Other entries stay as they are. A note for the user says what was split.
    """
    seeds = seeds_of_names(list(dict.fromkeys(entry.optimizer for entry in entries)))
    if not seeds:
        return list(entries)
    notes.append(note_on_seeds(seeds))
    split_entries: list[Entry] = []
    for entry in entries:
        if entry.optimizer in seeds:
            optimizer, seed = seeds[entry.optimizer]
            split_entries.append(replace(entry, optimizer=optimizer, seed=seed))
        else:
            split_entries.append(entry)
    return split_entries
