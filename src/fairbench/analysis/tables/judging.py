"""Verdicts on a user's table of results, by the tests and corrections that a study gets."""

from collections import Counter
from typing import Any

from fairbench.analysis.comparison.judge import FEWEST_SEEDS, judge
from fairbench.analysis.comparison.verdicts import Comparison
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

    Two optimizers are compared by the paired test, if they share two seeds or have the same ones. Otherwise they are
    compared by Welch's test of all seeds. Means are compared by Welch's test, and with a number by the t-test of one
    sample.

    Returns:
        the comparisons in the table's order, and notes on what was skipped, merged or assumed.

    Raises:
        UsageError: the table cannot be read, may mean two things, or has a wrong or repeated value.
    """
    sheet = read_table(source)
    # W&B adds columns with ranges
    columns = Columns(without_ranges(sheet), given=asked.columns, metric=asked.metric)
    table = long_table(columns, one_optimizer_is_enough=asked.reference_value is not None)
    entries = entries_of(table)
    _check_optimizers(entries, asked)
    notes = list(entries.notes)
    arenas = arenas_of(entries, asked, notes)
    # by default the first one of the table
    optimizer = asked.optimizer or entries.optimizers[0]
    comparisons: list[Comparison] = []
    for arena in arenas:
        if asked.reference_value is not None:
            comparisons += _against_number(arena, entries.metric, asked)
        elif optimizer in arena.arms:
            comparisons += _against_baselines(arena, entries.metric, optimizer, asked)
    if not comparisons:
        ways = "add rows, or --optimizer, or compare it with a number by --reference-value"
        raise UsageError(f"{entries.table}: {optimizer} shares no arena with another optimizer; {ways}")
    return judge(comparisons, asked.alpha, min_seeds=FEWEST_SEEDS), list(dict.fromkeys(notes))


def _check_optimizers(entries: Entries, asked: Question) -> None:
    """Refuse unknown names of optimizers, and names of the table that differ only in capital letters."""
    known = entries.optimizers
    wanted = [*asked.baselines]
    if asked.optimizer:
        wanted.insert(0, asked.optimizer)
    for name in wanted:
        if name not in known:
            raise unknown(f"optimizer of {entries.table}", name, known)
    spellings = Counter(name.casefold() for name in known)
    variants = [name for name in known if spellings[name.casefold()] > 1]
    if variants:
        raise UsageError(
            f"{entries.table}: are {' and '.join(variants)} the same? Give one name, or two that differ more"
        )


def _against_number(arena: ArenaTable, metric: str, asked: Question) -> list[Comparison]:
    """Compare the optimizer that is asked for, or each one, with the reference value."""
    assert asked.reference_value is not None
    comparisons = []
    for optimizer, arm in arena.arms.items():
        if asked.optimizer in ("", optimizer):
            # against_number() sets the baseline
            comparison = _untested(arena, metric, optimizer, baseline="")
            comparisons.append(against_number(comparison, arm, asked.reference_value))
    return comparisons


def _against_baselines(arena: ArenaTable, metric: str, optimizer: str, asked: Question) -> list[Comparison]:
    """Compare an optimizer with each baseline that is asked for, or with every other optimizer."""
    arm = arena.arms[optimizer]
    comparisons = []
    for baseline, other in arena.arms.items():
        if baseline != optimizer and (not asked.baselines or baseline in asked.baselines):
            comparison = _untested(arena, metric, optimizer, baseline)
            comparisons.append(between_arms(comparison, arm, other))
    return comparisons


def _untested(arena: ArenaTable, metric: str, optimizer: str, baseline: str) -> Comparison:
    """A comparison that has names but no numbers yet."""
    return Comparison(
        arena=arena.arena,
        metric=metric,
        direction=arena.direction,
        optimizer=optimizer,
        baseline=baseline,
        margin=arena.margin,
    )
