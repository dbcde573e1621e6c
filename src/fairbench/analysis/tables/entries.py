"""The values of a table with their arenas, optimizers and seeds, as texts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairbench.analysis.tables.column_names import RUN_WITH_NUMBER, RUN_WITH_SEED, chosen_metric
from fairbench.analysis.tables.columns import Roles
from fairbench.analysis.tables.layout import LongTable
from fairbench.analysis.tables.readers.sheet import Row
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some


@dataclass(frozen=True)
class Entry:
    """A value of a run at a step, or the summary of several runs.

    Attributes:
        seed: as the table has it; None where it has none.
        texts: those of value, or of mean, std or sem, and n; and of other roles that the table has.
    """

    arena: str
    optimizer: str
    seed: str | None
    texts: Mapping[str, str]
    row: Row


@dataclass(frozen=True)
class Entries:
    """The entries of a table, in its order, with the name of their metric, and what must be said of them."""

    table: str
    entries: Sequence[Entry]
    metric: str
    notes: Sequence[str]

    @property
    def optimizers(self) -> list[str]:
        """The optimizers in the order of the table."""
        return list(dict.fromkeys(entry.optimizer for entry in self.entries))


def entries_of(table: LongTable) -> Entries:
    """The entries of one metric.

    Raises:
        UsageError: the name of an arena, an optimizer or a seed is empty, or there are several metrics.
    """
    sheet = table.sheet
    metric = table.metric
    notes = list(sheet.notes)
    entries = [_entry(row, table.roles, sheet.name, metric) for row in sheet.rows]
    if "metric" in table.roles:
        tags = dict.fromkeys(entry.texts["metric"] for entry in entries)
        metric = chosen_metric(sheet.name, metric, list(tags))
        entries = [entry for entry in entries if entry.texts["metric"] == metric]
    if "seed" not in table.roles:
        entries = _with_seeds_of_names(entries, notes)
    return Entries(sheet.name, entries, metric, notes)


def _entry(row: Row, roles: Roles, table: str, metric: str) -> Entry:
    texts = {}
    for role, columns in roles.items():
        # a count of seeds may be a number that the user gives, in place of a column
        texts[role] = "/".join(row.cells.get(column, column) for column in columns)
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
    """Entries whose optimizers are names of runs, by the seeds at the ends of these names; a note says so."""
    names = list(dict.fromkeys(entry.optimizer for entry in entries))
    seeds = _seeds_of_runs(names) or _numbers_of_runs(names)
    if not seeds:
        return list(entries)
    optimizers = list(dict.fromkeys(optimizer for optimizer, _ in seeds.values()))
    count = plural(len(optimizers), "optimizer")
    taken = plural(len(seeds), "name")
    notes.append(f"{taken} taken as seeds of {count} by the numbers at their ends: {some(optimizers)}")
    split = []
    for entry in entries:
        if entry.optimizer in seeds:
            optimizer, seed = seeds[entry.optimizer]
            split.append(replace(entry, optimizer=optimizer, seed=seed))
        else:
            split.append(entry)
    return split


def _seeds_of_runs(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The optimizer and the seed of each name that has the word seed."""
    seeds = {}
    for name in names:
        found = RUN_WITH_SEED.fullmatch(name)
        if found:
            seeds[name] = (found[1], found[2])
    return seeds


def _numbers_of_runs(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The optimizer and the number of each name, if all names have one, and each of several optimizers has several."""
    numbers = {}
    for name in names:
        found = RUN_WITH_NUMBER.fullmatch(name)
        if not found:
            return {}
        numbers[name] = (found[1], found[2])
    runs = Counter(optimizer for optimizer, _ in numbers.values())
    if len(runs) > 1 and min(runs.values()) > 1:
        return numbers
    return {}
