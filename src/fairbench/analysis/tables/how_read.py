"""The sentence that says how a table was read."""

from collections.abc import Collection, Iterable, Sequence

from fairbench.analysis.tables.arenas import ArenaTable
from fairbench.analysis.tables.entries import Entries
from fairbench.analysis.tables.layout import LongTable
from fairbench.analysis.tables.metric_names import BETTER, direction_of
from fairbench.analysis.tables.question import Question
from fairbench.common.formatting import plural, some
from fairbench.common.grouping import grouped

SAID = ("optimizer", "arena", "seed", "step", "metric", "state", "value", "mean", "std", "sem", "n")
"""The roles that the sentence tells, in this order."""


def how_read(table: LongTable, entries: Entries, arenas: Sequence[ArenaTable], asked: Question, compared: str) -> str:
    """What each column is, the runs of each optimizer, the better values and why, and what was left out.

    Args:
        compared: which optimizers are compared with which, in words.
    """
    names = [arena.arena for arena in arenas]
    place = ""
    if names != [entries.metric]:  # without a column of arenas, the metric is the only one
        place = f" in {plural(len(arenas), 'arena')} ({some(names)})"
    parts = [
        *_columns(table),
        _runs(arenas) + place,
        _better(arenas, entries.metric, asked),
    ]
    if table.left_out:
        parts.append(f"left out: {some(table.left_out)}")
    parts.append(compared)
    return f"Read as: {'; '.join(parts)}."


def _columns(table: LongTable) -> list[str]:
    """What the first path or name says, if paths or names tell columns, and what the other columns are."""
    by_example = []
    by_column = []
    for role, meaning in table.meanings.items():
        text = table.sheet.origins.get(meaning)
        if text is None:
            by_column.append((role, meaning))
        else:
            by_example.append((role, text))
    parts = []
    if by_example:
        parts.append(f"the {table.sheet.example} says {_in_order(by_example)}")
    parts.append(_in_order(by_column))
    return parts


def _in_order(meanings: Iterable[tuple[str, str]]) -> str:
    """Roles with what they are, in the order of the sentence."""
    known = [pair for pair in meanings if pair[0] in SAID]
    known.sort(key=lambda pair: SAID.index(pair[0]))
    return ", ".join(f"{role} = {meaning}" for role, meaning in known)


def _runs(arenas: Sequence[ArenaTable]) -> str:
    """The numbers of runs of the optimizers, such as "3 runs of A, B; 2 to 3 of C"."""
    sizes = grouped((optimizer, arm.size) for arena in arenas for optimizer, arm in arena.arms.items())
    optimizers_of = grouped((_span(found), optimizer) for optimizer, found in sizes.items())
    are_means = all(arm.given is not None for arena in arenas for arm in arena.arms.values())
    texts = []
    for span, optimizers in optimizers_of.items():
        noun = "run" if span == "1" else "runs"
        texts.append(f"{span} {noun} of {some(optimizers)}")
    text = ", ".join(texts)
    if are_means:
        return f"means of {text}"
    return text


def _span(sizes: Sequence[int]) -> str:
    """One number, or the smallest and the largest."""
    smallest = min(sizes)
    largest = max(sizes)
    if smallest == largest:
        return str(smallest)
    return f"{smallest} to {largest}"


def _better(arenas: Sequence[ArenaTable], metric: str, asked: Question) -> str:
    """The better values, and what says so."""
    arenas_of = grouped((BETTER[arena.direction], arena.arena) for arena in arenas)
    texts = []
    for word, names in arenas_of.items():
        place = ""
        if len(arenas_of) > 1:
            place = f" in {some(names)}"
        texts.append(f"{word} is better{place}")
    reason = f"by the name {metric}"
    if asked.better:
        reason = f"by --better{_contradiction(metric, arenas_of.keys())}"
    elif any(arena.said_by_table for arena in arenas):
        reason = "by the table"
    return f"{', '.join(texts)} {reason}"


def _contradiction(metric: str, words: Collection[str]) -> str:
    """What the name of the metric says about the better values, if --better says the opposite; otherwise empty."""
    by_name = direction_of(metric)
    if not by_name or by_name in words:
        return ""
    return f", although the name {metric} says {by_name}"
