"""A study compared with a publication: values and verdicts, row by row."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.published.publication import Entry, Publication
from fairbench.analysis.results import Results
from fairbench.analysis.statistics.significance import TTest, summarize, welch
from fairbench.arenas.registry import ARENAS

LEVEL = 0.05
"""The level below which publications call a difference significant."""
NOT_SIGNIFICANT = "n.s."
HIGHEST_LOSS = 100.0
"""A larger loss gets the perplexity of this one: the square of a larger perplexity may overflow."""

Direction = Literal["better", "worse", "equal"]


@dataclass(frozen=True)
class ValueRow:
    """A published mean, or the value of one seed, and ours on the test split; None where a side has no value.

    Attributes:
        seed: the seed of both sides, empty for a mean over seeds.
        published_mean, published_std: as printed.
        our_mean, our_std, n: mean, standard deviation (ddof = 1) and number of our finished seeds.
        difference: ours - published.
        inside: whether our mean lies within the published mean +- std, ends included, as they are printed.
        published_lr, our_lr: the selected learning rates.
        same_lr: whether they are the same in three digits, as published rates are printed.
    """

    place: str
    arena: str
    metric: str
    optimizer: str
    seed: str
    published_mean: Decimal
    published_std: Decimal | None
    our_mean: float | None
    our_std: float | None
    n: int
    difference: float | None
    inside: bool | None
    published_lr: Decimal | None
    our_lr: float | None
    same_lr: bool | None


class Judgement(NamedTuple):
    """The result of an optimizer against a baseline before any correction, significant at `LEVEL` or not."""

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


def value_rows(publication: Publication, results: Results) -> list[ValueRow]:
    """Every published mean and value of a seed with ours, in the order of the publication."""
    return [_value_row(publication, entry, results) for entry in publication.all("mean", "value")]


def _value_row(publication: Publication, entry: Entry, results: Results) -> ValueRow:
    about = {"arena": entry.arena, "optimizer": entry.optimizer}
    # the printed spread is that of the mean over seeds, not of one seed
    std = publication.number("std", metric=entry.metric, **about) if entry.statistic == "mean" else None
    lr = publication.number("lr", **about)
    arm = results.by_name.get((entry.arena, entry.optimizer))
    by_seed = our_scores(results, entry.arena, entry.metric, entry.optimizer)
    ours = [value for seed, value in by_seed.items() if entry.seed in ("", str(seed))]
    mean, our_lr = fmean(ours) if ours else None, arm.selected.lr if arm and arm.selected else None
    return ValueRow(
        place=entry.place,
        **about,
        metric=entry.metric,
        seed=entry.seed,
        published_mean=entry.number,
        published_std=std,
        our_mean=mean,
        our_std=stdev(ours) if len(ours) > 1 else None,
        n=len(ours),
        difference=None if mean is None else mean - float(entry.number),
        inside=None if mean is None or std is None else is_inside(mean, entry.number, std),
        published_lr=lr,
        our_lr=our_lr,
        same_lr=None if lr is None or our_lr is None else float(f"{our_lr:.3g}") == float(lr),
    )


def is_inside(value: float, mean: Decimal, std: Decimal) -> bool:
    """Whether a value lies within mean +- std, ends included, in the decimal numbers that are printed."""
    return abs(Decimal(repr(value)) - mean) <= std


def our_scores(results: Results, arena: str, metric: str, optimizer: str) -> dict[int, float]:
    """A metric of the finished final trials on the test split, by seed; empty without such an arm.

    The perplexity of a seed is exp of its loss.
    """
    arm = results.by_name.get((arena, optimizer))
    measured = "loss" if metric == "perplexity" else metric
    runs = arm.final if arm else []
    scores = {run.seed: value for run in runs if (value := run.metric("test", measured)) is not None}
    return {s: math.exp(min(x, HIGHEST_LOSS)) for s, x in scores.items()} if metric == "perplexity" else scores


def verdict_rows(publication: Publication, results: Results, comparisons: Sequence[Comparison]) -> list[VerdictRow]:
    """Every published comparison of two optimizers with ours, in the order of the publication.

    An arm with a final trial that did not finish is not tested: the mean of its finished trials may be too good.
    """
    holm = {(c.arena, c.metric, c.optimizer, c.baseline): c.statement for c in comparisons}
    return [_verdict_row(publication, entry, results, holm) for entry in publication.all("verdict")]


def _verdict_row(
    publication: Publication, entry: Entry, results: Results, holm: Mapping[tuple[str, str, str, str], str]
) -> VerdictRow:
    about, pair = (entry.arena, entry.metric), (entry.optimizer, entry.baseline)
    first, second = (publication.number("mean", arena=entry.arena, metric=entry.metric, optimizer=x) for x in pair)
    assert first is not None
    assert second is not None
    published = Judgement(direction(*about, float(first - second)), entry.value != NOT_SIGNIFICANT)
    test, note = _test(results, *about, *pair)
    ours = None if test is None or test.p is None else Judgement(direction(*about, test.difference), test.p < LEVEL)
    keys = dict(zip(("arena", "metric", "optimizer", "baseline"), (*about, *pair), strict=True))
    return VerdictRow(
        place=entry.place,
        **keys,
        published_mark=entry.value,
        published_p=publication.number("p", **keys),
        published_direction=published.direction,
        published_significant=published.significant,
        our_p=test.p if test else None,
        our_direction=ours.direction if ours else None,
        our_significant=ours.significant if ours else None,
        holm=holm.get((*about, *pair)),
        agree=agree(published, ours) if ours else None,
        note=note,
    )


def _test(results: Results, arena: str, metric: str, optimizer: str, baseline: str) -> tuple[TTest | None, str]:
    """Welch's test of two complete arms, and the reason why it is missing or degenerate."""
    if arena not in results.study.suite.arenas:
        return None, f"no {arena} in the study"
    planned, notes = len(results.study.suite.final.seeds), []
    scores = {name: [*our_scores(results, arena, metric, name).values()] for name in (optimizer, baseline)}
    for name, finished in scores.items():
        if (arena, name) not in results.by_name:
            notes.append(f"no {name} in the study")
        elif len(finished) < planned:
            notes.append(f"{name} finished {len(finished)} of {planned} seeds")
    test = None if notes else welch(*map(summarize, scores.values()))
    return test, test.reason if test else ", ".join(notes)


def direction(arena: str, metric: str, difference: float) -> Direction:
    """The direction of an optimizer whose metric exceeds the baseline's by a difference."""
    higher_is_better = ARENAS[arena].metrics.get(metric) == "max"  # perplexity, which arenas do not have, is a minimum
    return "equal" if difference == 0 else "better" if (difference > 0) == higher_is_better else "worse"


def gaps(publication: Publication, results: Results) -> list[str]:
    """The arenas, optimizers and metrics that only one side has, in words; metrics of the arenas that both have."""
    suite, printed = results.study.suite, publication.all("mean")
    both = [arena for arena in suite.arenas if any(entry.arena == arena for entry in printed)]
    theirs = {f"{entry.arena} {entry.metric}" for entry in printed if entry.arena in both}
    ours = {f"{arena} {metric}" for arena in both for metric in results.metrics[arena]}
    ours |= theirs & {f"{arena} perplexity" for arena in both if "loss" in results.metrics[arena]}
    names = {
        "arenas": ({entry.arena for entry in printed}, set(suite.arenas)),
        "optimizers": ({entry.optimizer for entry in printed}, set(suite.optimizers)),
        "metrics": (theirs, ours),
    }
    missing = [f"{kind} missing in the study: {', '.join(sorted(a - b))}" for kind, (a, b) in names.items() if a - b]
    others = [f"{kind} that were not published: {', '.join(sorted(b - a))}" for kind, (a, b) in names.items() if b - a]
    return missing + others
