"""A study compared with a publication: values, row by row, and what only one of the two has."""

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import fmean

from fairbench.analysis.published.publication import Entry, Publication
from fairbench.analysis.results import Results
from fairbench.analysis.statistics.significance import deviation

HIGHEST_LOSS = 100.0
"""The loss with the largest perplexity that is computed. The square of a larger perplexity may overflow."""


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


def value_rows(publication: Publication, results: Results) -> list[ValueRow]:
    """Each published mean, and each published value of a seed, next to ours, in the order of the publication."""
    return [_value_row(publication, entry, results) for entry in publication.all("mean", "value")]


def _value_row(publication: Publication, entry: Entry, results: Results) -> ValueRow:
    """The row of a published mean or value of a seed."""
    std = None
    if entry.statistic == "mean":  # a value of one seed has no printed spread
        std = publication.number("std", arena=entry.arena, metric=entry.metric, optimizer=entry.optimizer)
    lr = publication.number("lr", arena=entry.arena, optimizer=entry.optimizer)
    our_lr = _selected_rate(results, entry)
    by_seed = our_scores(results, entry.arena, entry.metric, entry.optimizer)
    # an entry without a seed is a mean over all seeds
    ours = [value for seed, value in by_seed.items() if entry.seed in ("", str(seed))]
    row = ValueRow(
        place=entry.place,
        arena=entry.arena,
        optimizer=entry.optimizer,
        metric=entry.metric,
        seed=entry.seed,
        published_mean=entry.number,
        published_std=std,
        our_mean=None,
        our_std=deviation(ours),
        n=len(ours),
        difference=None,
        inside=None,
        published_lr=lr,
        our_lr=our_lr,
        same_lr=None if lr is None or our_lr is None else is_same_rate(our_lr, lr),
    )
    if not ours:
        return row
    mean = fmean(ours)
    return replace(
        row,
        our_mean=mean,
        difference=mean - float(entry.number),
        inside=None if std is None else is_inside(mean, entry.number, std),
    )


def _selected_rate(results: Results, entry: Entry) -> float | None:
    """The selected learning rate of the same arm in our study; None without the arm or a selected rate."""
    arm = results.by_name.get((entry.arena, entry.optimizer))
    if arm is None or arm.selected is None:
        return None
    return arm.selected.lr


def is_same_rate(rate: float, printed: Decimal) -> bool:
    """Whether a rate equals a printed one when it is rounded to three digits, as published rates are."""
    return float(f"{rate:.3g}") == float(printed)


def is_inside(value: float, mean: Decimal, std: Decimal) -> bool:
    """Whether a value lies within mean +- std, limits included. Printed numbers are compared exactly, as decimals."""
    return abs(Decimal(repr(value)) - mean) <= std


def our_scores(results: Results, arena: str, metric: str, optimizer: str) -> dict[int, float]:
    """A metric of the finished final trials on the test split, by seed; empty without such an arm.

    The perplexity of a seed is exp of its loss.
    """
    arm = results.by_name.get((arena, optimizer))
    if arm is None:
        return {}
    if metric == "perplexity":
        losses = our_scores(results, arena, "loss", optimizer)
        return {seed: math.exp(min(loss, HIGHEST_LOSS)) for seed, loss in losses.items()}
    return arm.scores_by_seed(metric)


def gaps(publication: Publication, results: Results) -> list[str]:
    """The arenas, optimizers and metrics that only the publication or only the study has, in words.

    Metrics are compared only in arenas that both have.
    """
    suite = results.study.suite
    printed = publication.all("mean")
    printed_arenas: set[str] = set()
    printed_optimizers: set[str] = set()
    printed_metrics: set[str] = set()
    for entry in printed:
        printed_arenas.add(entry.arena)
        printed_optimizers.add(entry.optimizer)
        if entry.arena in suite.arenas:
            printed_metrics.add(f"{entry.arena} {entry.metric}")
    our_metrics: set[str] = set()
    for arena in suite.arenas:
        if arena in printed_arenas:
            our_metrics.update(f"{arena} {metric}" for metric in results.metrics[arena])
            perplexity = f"{arena} perplexity"
            if "loss" in results.metrics[arena] and perplexity in printed_metrics:
                our_metrics.add(perplexity)  # computed from the loss
    names = [
        ("arenas", printed_arenas, set(suite.arenas)),
        ("optimizers", printed_optimizers, set(suite.optimizers)),
        ("metrics", printed_metrics, our_metrics),
    ]
    missing = []
    unpublished = []
    for kind, theirs, ours in names:
        if theirs - ours:
            missing.append(f"{kind} missing in the study: {', '.join(sorted(theirs - ours))}")
        if ours - theirs:
            unpublished.append(f"{kind} that were not published: {', '.join(sorted(ours - theirs))}")
    return missing + unpublished
