"""Verdicts on a user's table of results, by the tests and corrections that a study gets."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.analysis.comparison.judge import judge
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.tables.across import mean_ranks, over_arenas
from fairbench.analysis.tables.arenas import ArenaTable, arenas_of
from fairbench.analysis.tables.column_names import RUNS, is_incidental, plain_name
from fairbench.analysis.tables.columns import Columns
from fairbench.analysis.tables.comparing import MISSING_SEEDS, against_number, between_arms, lack_seeds
from fairbench.analysis.tables.entries import Entries, entries_of
from fairbench.analysis.tables.how_read import how_read
from fairbench.analysis.tables.layout import LongTable, long_table
from fairbench.analysis.tables.margins import notes_on_margins
from fairbench.analysis.tables.pairs import Pair, pairs_of
from fairbench.analysis.tables.question import Question, Unanswered
from fairbench.analysis.tables.readers import read_table
from fairbench.analysis.tables.readers.content import is_read_once, opened
from fairbench.analysis.tables.run_names import with_parts_of_names
from fairbench.common.errors import UsageError, unknown

FOLDS = re.compile(r"fold|split", re.IGNORECASE)
"""A column of seeds whose runs are the folds of a cross-validation."""


@dataclass(frozen=True)
class Judged:
    """The verdicts on a table.

    Attributes:
        comparisons: one family, in the order of the table.
        across: the comparisons over all arenas, if each optimizer has one value in each: a family of its own.
        read_as: how the table was read, in one sentence.
        notes: what was skipped, merged or assumed.
    """

    comparisons: Sequence[Comparison]
    across: Sequence[Comparison]
    read_as: str
    notes: Sequence[str]


def table_verdicts(source: Any, asked: Question) -> Judged:
    """Judge a table as `_judged` does. All questions that its user must answer are in one message.

    Raises:
        UsageError: see `_judged`.
    """
    if is_read_once(source):
        source = opened(source)
    try:
        return _judged(source, asked)
    except Unanswered as first:
        questions = _with_later_questions(first, source, asked)
    raise UsageError(". Also, ".join(questions))


def _with_later_questions(first: Unanswered, source: Any, asked: Question) -> list[str]:
    """A question, and those that follow if each gets its assumed answer.

    A second question about an assumed answer ends them: the true answer may not lead to it.
    """
    questions = []
    assumed: set[str] = set()  # the arguments that have an assumed answer
    question: Unanswered | None = first
    while question is not None and not question.assumed.keys() & assumed:
        questions.append(str(question))
        assumed |= question.assumed.keys()
        asked = asked.assuming(question.assumed)
        question = _next_question(source, asked)
    return questions


def _next_question(source: Any, asked: Question) -> Unanswered | None:
    """What the user must answer besides; None for nothing, and for another error: true answers may not lead to it."""
    try:
        _judged(source, asked)
    except Unanswered as question:
        return question
    except UsageError:
        return None
    return None


def _judged(source: Any, asked: Question) -> Judged:
    """Judge the results of a table: pairs of optimizers, or means against a number, in every arena.

    Two optimizers with the same seeds are compared by the paired test, those with other seeds by Welch's test, and
    those of which one lacks seeds only by a test that is asked for. Means are compared by Welch's test, and with a
    number by the t-test of one sample.

    Raises:
        UsageError: the table cannot be read, may mean two things, or has a wrong or repeated value.
    """
    if asked.min_seeds < 2:
        raise UsageError(f"--min-seeds must be at least 2, got {asked.min_seeds}")
    sheet = read_table(source, asked.name, asked.metric).without_ranges()
    sheet = with_parts_of_names(sheet, asked)
    columns = Columns(sheet, given=asked.columns, metric=asked.metric)
    table = long_table(columns, one_optimizer_is_enough=asked.reference_value is not None)
    entries = entries_of(table)
    _check_optimizers(entries, asked)
    notes = list(entries.notes)
    arenas = arenas_of(entries, asked, notes)
    _check_names_of_runs(table, arenas, asked)
    pairs, compared = pairs_of(entries.optimizers, asked)
    comparisons: list[Comparison] = []
    across: list[Comparison] = []
    if asked.reference_value is not None:
        compared = f"each mean is compared with {asked.reference_value:g}"
        for arena in arenas:
            comparisons += _against_number(arena, entries.metric, asked)
    else:
        for arena in arenas:
            comparisons += _of_pairs(arena, entries.metric, pairs, asked.test)
            if not asked.test and _lacks_seeds(arena, pairs):
                notes.append(MISSING_SEEDS)
        across = over_arenas(arenas, pairs, entries.metric)
    if not comparisons:
        optimizer = asked.optimizer or entries.optimizers[0]
        ways = "add rows, or --optimizer, or compare it with a number by --reference-value"
        raise UsageError(f"{entries.table}: {optimizer} shares no arena with another optimizer; {ways}")
    notes += notes_on_margins(arenas)
    if FOLDS.search(table.meanings.get("seed", "")):
        notes.append("the folds of a cross-validation share training examples, so the tests find too many differences")
    if across:
        notes += _notes_on_arenas(arenas, across)
    return Judged(
        comparisons=judge(comparisons, asked.alpha, asked.min_seeds),
        across=judge(across, asked.alpha, asked.min_seeds) if across else [],
        read_as=how_read(table, entries, arenas, asked, compared),
        notes=list(dict.fromkeys(notes)),
    )


def _notes_on_arenas(arenas: Sequence[ArenaTable], across: Sequence[Comparison]) -> list[str]:
    """What the user must know of comparisons over arenas, and the mean ranks."""
    most = max(comparison.seeds for comparison in across)
    notes = [f"the test over {most} arenas takes each as one pair and needs alike scales; Demsar (2006) advises ranks"]
    ranks = mean_ranks(arenas)
    if ranks:
        best_first = sorted(ranks, key=lambda optimizer: ranks[optimizer])
        texts = [f"{optimizer} {ranks[optimizer]:.3g}" for optimizer in best_first]
        notes.append(f"mean ranks, 1 is best: {', '.join(texts)}")
    return notes


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


def _check_names_of_runs(table: LongTable, arenas: Sequence[ArenaTable], asked: Question) -> None:
    """Refuse a table whose optimizers come from a column of names of runs, and have one run each.

    Raises:
        UsageError: naming the columns that may have the optimizers.
    """
    column = table.meanings.get("optimizer", "")
    if plain_name(column) not in RUNS or "optimizer" in asked.columns or len(arenas) > 1:
        return
    arms = list(arenas[0].arms.values())
    are_single_runs = all(arm.size == 1 and arm.given is None for arm in arms)
    if not are_single_runs or asked.reference_value is not None:
        return
    repeated = []
    for name in table.left_out:
        if name in table.sheet.columns and not is_incidental(name):
            texts = table.sheet.column(name)
            if 1 < len(set(texts)) < len(texts):
                repeated.append(name)
    ways = "export a column that names the optimizer, or say with --name which part of these names does"
    if repeated:
        listed = " or ".join(f'--columns optimizer="{name}"' for name in repeated)
        ways = f"give {listed}"
    raise UsageError(
        f"{table.sheet.name}: each of the {len(arms)} names in {column} has one run, so they seem to name runs and not "
        f'optimizers; {ways}; if they do name optimizers, give --columns optimizer="{column}"'
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


def _of_pairs(arena: ArenaTable, metric: str, pairs: Sequence[Pair], test: str) -> list[Comparison]:
    """Compare the pairs of which both optimizers have a row in an arena."""
    comparisons = []
    for optimizer, baseline in pairs:
        if optimizer in arena.arms and baseline in arena.arms:
            comparison = _untested(arena, metric, optimizer, baseline)
            comparisons.append(between_arms(comparison, arena.arms[optimizer], arena.arms[baseline], test))
    return comparisons


def _lacks_seeds(arena: ArenaTable, pairs: Sequence[Pair]) -> bool:
    """Whether an optimizer of a pair lacks a seed in an arena."""
    arms = [(arena.arms[ours], arena.arms[theirs]) for ours, theirs in pairs if {ours, theirs} <= arena.arms.keys()]
    return any(lack_seeds(ours, theirs) for ours, theirs in arms)


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
