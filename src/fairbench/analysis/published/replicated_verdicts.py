"""The comparisons of a publication next to those of a study, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, NamedTuple

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.published.publication import Entry, Publication
from fairbench.analysis.published.replicated_values import our_scores
from fairbench.analysis.results import Results
from fairbench.analysis.statistics.significance import TTest, summarize, welch
from fairbench.arenas.registry import ARENAS

LEVEL = 0.05
"""The level below which publications call a difference significant."""
NOT_SIGNIFICANT = "n.s."
"""The mark that publications print for a difference that is not significant."""

Direction = Literal["better", "worse", "equal"]


class Judgement(NamedTuple):
    """The direction of the difference between an optimizer and a baseline, and whether it is significant at `LEVEL`.

    The significance is not corrected.
    """

    direction: Direction
    significant: bool


def agree(a: Judgement, b: Judgement) -> bool:
    """Whether two judgements are significant in the same direction, or neither is significant."""
    return a == b or not (a.significant or b.significant)


@dataclass(frozen=True)
class VerdictRow:
    """A published comparison and ours; None where ours cannot be made.

    Attributes:
        published_mark: the mark that is printed, "*" or "n.s.".
        published_p: the p-value, where one is printed.
        published_direction, our_direction: whether the mean of the optimizer is better or worse than the baseline's.
        published_significant: whether the mark means significant.
        our_p: Welch's p on our values, not corrected.
        our_significant: whether our p is below `LEVEL`.
        holm: the verdict of the suite, corrected; None where the suite does not make this comparison.
        agree: whether both are significant in the same direction, or neither is significant.
    """

    place: str
    arena: str
    metric: str
    optimizer: str
    baseline: str
    published_mark: str
    published_p: Decimal | None
    published_direction: Direction
    published_significant: bool
    our_p: float | None
    our_direction: Direction | None
    our_significant: bool | None
    holm: str | None
    agree: bool | None
    note: str


def verdict_rows(publication: Publication, results: Results, comparisons: Sequence[Comparison]) -> list[VerdictRow]:
    """Each published comparison of two optimizers next to ours, in the order of the publication.

    An arm with a final trial that did not finish is not tested: the mean of its finished trials may be too good.
    """
    holm = {(c.arena, c.metric, c.optimizer, c.baseline): c.statement for c in comparisons}
    return [_verdict_row(publication, entry, results, holm) for entry in publication.all("verdict")]


def _verdict_row(
    publication: Publication, entry: Entry, results: Results, holm: Mapping[tuple[str, str, str, str], str]
) -> VerdictRow:
    """The row of a published comparison. `holm` has the corrected verdicts by arena, metric, optimizer and baseline."""
    published = _published_judgement(publication, entry)
    compared = (entry.arena, entry.metric, entry.optimizer, entry.baseline)
    published_p = publication.number(
        "p",
        arena=entry.arena,
        metric=entry.metric,
        optimizer=entry.optimizer,
        baseline=entry.baseline,
    )
    test, note = _test(results, *compared)
    row = VerdictRow(
        place=entry.place,
        arena=entry.arena,
        metric=entry.metric,
        optimizer=entry.optimizer,
        baseline=entry.baseline,
        published_mark=entry.value,
        published_p=published_p,
        published_direction=published.direction,
        published_significant=published.significant,
        our_p=None,
        our_direction=None,
        our_significant=None,
        holm=holm.get(compared),
        agree=None,
        note=note,
    )
    if test is None or test.p is None:
        return row
    ours = Judgement(direction(entry.arena, entry.metric, test.difference), test.p < LEVEL)
    return replace(
        row,
        our_p=test.p,
        our_direction=ours.direction,
        our_significant=ours.significant,
        agree=agree(published, ours),
    )


def _published_judgement(publication: Publication, entry: Entry) -> Judgement:
    """The judgement that a publication prints: the direction of its means, and its mark of significance."""
    ours = publication.number("mean", arena=entry.arena, metric=entry.metric, optimizer=entry.optimizer)
    theirs = publication.number("mean", arena=entry.arena, metric=entry.metric, optimizer=entry.baseline)
    assert ours is not None
    assert theirs is not None
    difference = float(ours - theirs)
    return Judgement(
        direction=direction(entry.arena, entry.metric, difference),
        significant=entry.value != NOT_SIGNIFICANT,
    )


def _test(results: Results, arena: str, metric: str, optimizer: str, baseline: str) -> tuple[TTest | None, str]:
    """Welch's test of two arms of our study, and a note. Without two complete arms, None and the reason."""
    if arena not in results.study.suite.arenas:
        return None, f"no {arena} in the study"
    planned = len(results.study.suite.final.seeds)
    notes = []
    scores = []
    for name in (optimizer, baseline):
        finished = our_scores(results, arena, metric, name)
        scores.append(list(finished.values()))
        if (arena, name) not in results.by_name:
            notes.append(f"no {name} in the study")
        elif len(finished) < planned:
            notes.append(f"{name} finished {len(finished)} of {planned} seeds")
    if notes:
        return None, ", ".join(notes)
    ours, theirs = scores
    test = welch(summarize(ours), summarize(theirs))
    return test, test.reason


def direction(arena: str, metric: str, difference: float) -> Direction:
    """Whether an optimizer is better or worse, if its metric minus the baseline's is this difference."""
    # arenas do not have perplexity, of which lower values are better
    higher_is_better = ARENAS[arena].metrics.get(metric) == "max"
    if difference == 0:
        return "equal"
    is_higher = difference > 0
    return "better" if is_higher == higher_is_better else "worse"
