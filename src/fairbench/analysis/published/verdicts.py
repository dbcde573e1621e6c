"""Verdicts on published numbers, by the tests and corrections that a study gets."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairbench.analysis.comparison.verdicts import Comparison, judge, summarized
from fairbench.analysis.published.publication import Publication
from fairbench.analysis.statistics.significance import Summary, holm
from fairbench.arenas.registry import ARENAS
from fairbench.common.errors import UsageError, unknown


@dataclass(frozen=True)
class PublishedComparison:
    """A comparison by the printed means and standard deviations, with the printed p-value.

    Attributes:
        comparison: by Welch's test of the printed numbers, so p depends on their rounding; without a margin.
        printed_p: the printed p-value, None if none is printed.
        printed_p_holm: the same, corrected for the same family; None unless all of them are printed.
    """

    comparison: Comparison
    printed_p: float | None
    printed_p_holm: float | None


def published_comparisons(
    publication: Publication, alpha: float, baselines: Sequence[str] = ()
) -> list[PublishedComparison]:
    """Judge the comparisons of a publication in its order, with one metric for each arena: the first that it prints.

    Args:
        alpha: family-wise error rate.
        baselines: the baselines whose comparisons are the family; empty for all.

    Raises:
        UsageError: it does not compare with such a baseline, or does not print a number that a test needs.
    """
    compared = publication.all("verdict")
    known = {entry.baseline for entry in compared}
    for name in baselines:
        if name not in known:
            raise unknown("baseline", name, known)
    metrics: dict[str, str] = {}
    for entry in publication.all("mean"):
        metrics.setdefault(entry.arena, entry.metric)
    family = [x for x in compared if x.metric == metrics[x.arena] and x.baseline in (baselines or known)]
    judged = judge([_summarized(publication, x.arena, x.metric, x.optimizer, x.baseline) for x in family], alpha)
    pairs = [{"arena": c.arena, "metric": c.metric, "optimizer": c.optimizer, "baseline": c.baseline} for c in judged]
    printed = [None if (p := publication.number("p", **pair)) is None else float(p) for pair in pairs]
    corrected = [None] * len(printed) if None in printed else holm(printed)
    return [PublishedComparison(*row) for row in zip(judged, printed, corrected, strict=True)]


def _summarized(publication: Publication, arena: str, metric: str, optimizer: str, baseline: str) -> Comparison:
    """Welch's test and effect size of two printed arms."""
    arms = [_arm(publication, arena=arena, metric=metric, optimizer=name) for name in (optimizer, baseline)]
    n = arms[0].n
    begun = Comparison(
        arena, metric, ARENAS[arena].metrics[metric], optimizer, baseline, n_optimizer=n, n_baseline=n, seeds=n
    )
    return summarized(begun, *arms)


def _arm(publication: Publication, **where: str) -> Summary:
    """The printed summary of an arm."""
    n, mean, std = publication.number("n"), *(publication.number(x, **where) for x in ("mean", "std"))
    if n is None or mean is None or std is None:
        missing = [x for x, number in (("n", n), ("mean", mean), ("std", std)) if number is None]
        raise UsageError(f"{publication.name} prints no {', '.join(missing)} of {', '.join(where.values())}")
    return Summary(int(n), float(mean), float(std))
