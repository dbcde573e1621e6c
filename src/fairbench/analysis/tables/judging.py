"""Verdicts on anyone's table of results, by the tests and corrections that a study gets."""

from collections import Counter
from typing import Any

from fairbench.analysis.comparison.verdicts import Comparison, judge
from fairbench.analysis.tables.arenas import ArenaTable, arenas_of
from fairbench.analysis.tables.columns import Columns, without_ranges
from fairbench.analysis.tables.comparing import against_number, between_arms
from fairbench.analysis.tables.entries import Entries, entries_of
from fairbench.analysis.tables.layout import long_table
from fairbench.analysis.tables.question import Question
from fairbench.analysis.tables.readers import read_table
from fairbench.common.errors import UsageError, unknown


def table_comparisons(source: Any, asked: Question) -> tuple[list[Comparison], list[str]]:
    """Judge the results of a table: an optimizer against every other one, or means against a number, in every arena.

    Two optimizers are compared by the paired test of the seeds that both have, if these are at least two, otherwise by
    Welch's test of all. Means are compared by Welch's test, and with a number by the t-test of one sample. The
    comparisons have the order of the table, and are returned with what was skipped, merged or assumed.

    Raises:
        UsageError: the table cannot be read, may mean two things, or has a wrong or repeated value.
    """
    sheet = read_table(source)
    columns = Columns(without_ranges(sheet), asked.columns, asked.metric)
    table = long_table(columns, alone=asked.reference_value is not None)
    entries = entries_of(table)
    _check_optimizers(entries, asked)
    notes = list(entries.notes)
    arenas = arenas_of(entries, asked, notes)
    optimizer = asked.optimizer or entries.optimizers[0]
    found: list[Comparison] = []
    for arena in arenas:
        if asked.reference_value is not None:
            found += _against_number(arena, entries.metric, asked)
        elif optimizer in arena.arms:
            found += _against_baselines(arena, entries.metric, optimizer, asked)
    if not found:
        ways = "add rows, or --optimizer, or compare it with a number by --reference-value"
        raise UsageError(f"{entries.table}: {optimizer} shares no arena with another optimizer; {ways}")
    return judge(found, asked.alpha), list(dict.fromkeys(notes))


def _check_optimizers(entries: Entries, asked: Question) -> None:
    """Refuse names of optimizers that the table lacks, or that differ only in capital letters."""
    known = entries.optimizers
    wanted = [*asked.baselines]
    if asked.optimizer:
        wanted.insert(0, asked.optimizer)
    for name in wanted:
        if name not in known:
            raise unknown(f"optimizer of {entries.table}", name, known)
    spellings = Counter(name.casefold() for name in known)
    alike = [name for name in known if spellings[name.casefold()] > 1]
    if alike:
        raise UsageError(f"{entries.table}: are {' and '.join(alike)} the same? Give one name, or two that differ more")


def _against_number(arena: ArenaTable, metric: str, asked: Question) -> list[Comparison]:
    """The comparisons of the optimizer that is asked for, or of all, with a number."""
    assert asked.reference_value is not None
    found = []
    for optimizer, arm in arena.arms.items():
        if asked.optimizer in ("", optimizer):
            begun = Comparison(arena.arena, metric, arena.direction, optimizer, "", margin=arena.margin)
            found.append(against_number(begun, arm, asked.reference_value))
    return found


def _against_baselines(arena: ArenaTable, metric: str, optimizer: str, asked: Question) -> list[Comparison]:
    """The comparisons of an optimizer with the baselines that are asked for, or with all others."""
    arm = arena.arms[optimizer]
    found = []
    for baseline, other in arena.arms.items():
        if baseline != optimizer and (not asked.baselines or baseline in asked.baselines):
            begun = Comparison(arena.arena, metric, arena.direction, optimizer, baseline, margin=arena.margin)
            found.append(between_arms(begun, arm, other))
    return found
