"""Published results, each publication a CSV file here with a row for each printed number, and the verdicts on them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources

from fairbench.analysis.comparison.verdicts import Comparison, judge, summarized
from fairbench.analysis.statistics.significance import Summary, holm
from fairbench.arenas.registry import ARENAS
from fairbench.common.errors import UsageError, unknown

PUBLICATIONS = resources.files("fairbench") / "analysis" / "published"


@dataclass(frozen=True)
class Entry:
    """A number, or a mark of significance, as a publication prints it; names are fairbench's, empty where none applies.

    Attributes:
        place: where it is printed, "Table 2".
        baseline: the optimizer that it is compared with.
        seed: the seed, in digits.
        statistic: "n" (seeds), "mean", "std" or "value" (of one seed), "lr", "verdict" or "p", "ratio", "wall_s" or
            "peak_mb".
        value: the printed characters, since the number of digits is part of the information.
    """

    place: str
    arena: str
    metric: str
    optimizer: str
    baseline: str
    seed: str
    statistic: str
    value: str

    @property
    def number(self) -> Decimal:
        """The value as the number that is printed, exactly."""
        return Decimal(self.value)


@dataclass(frozen=True)
class Publication:
    """The printed numbers of a publication, in its order; the suite of its name has its settings."""

    name: str
    entries: tuple[Entry, ...]

    def all(self, *statistics: str) -> list[Entry]:
        """The entries of some statistics, in the order of the publication."""
        return [entry for entry in self.entries if entry.statistic in statistics]

    def number(self, statistic: str, **where: str) -> Decimal | None:
        """The first number of a statistic with some properties, such as arena="vit"; None if none is printed."""
        entries = (x for x in self.all(statistic) if all(getattr(x, key) == value for key, value in where.items()))
        return next((entry.number for entry in entries), None)


def publication_names() -> list[str]:
    """Names of the publications that come with fairbench."""
    return sorted(file.name.removesuffix(".csv") for file in PUBLICATIONS.iterdir() if file.name.endswith(".csv"))


def load_publication(name: str) -> Publication:
    """Read a publication by its name. Raises `UsageError` if there is no such publication."""
    if name not in publication_names():
        raise unknown("publication", name, publication_names())
    text = (PUBLICATIONS / f"{name}.csv").read_text(encoding="utf-8")
    return Publication(name, tuple(Entry(**row) for row in csv.DictReader(text.splitlines())))


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

    Those with some baselines, or all, are the family of the error rate alpha.

    Raises:
        UsageError: it does not compare with such a baseline, or does not print a number that a test needs.
    """
    compared = publication.all("verdict")
    known = {entry.baseline for entry in compared}
    for name in baselines:
        if name not in known:
            raise unknown("baseline", name, known)
    metrics = {entry.arena: entry.metric for entry in reversed(publication.all("mean"))}
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
