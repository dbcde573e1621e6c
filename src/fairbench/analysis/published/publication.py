"""Published results and the verdicts on them. Each publication is a CSV file here, with a row for each number."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources

from fairbench.analysis.comparison.judge import FEWEST_SEEDS, judge
from fairbench.analysis.comparison.two_arms import summarized
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.significance import Summary, holm
from fairbench.arenas.registry import ARENAS
from fairbench.common.errors import UsageError, unknown

PUBLICATIONS = resources.files("fairbench") / "analysis" / "published"


@dataclass(frozen=True)
class Entry:
    """A number, or a mark of significance, as a publication prints it.

    The names are those of fairbench. A name is empty where none applies.

    Attributes:
        place: the part of the publication that prints it, such as "Table 2".
        baseline: the optimizer that `optimizer` is compared with.
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
        """The printed value as an exact decimal number."""
        return Decimal(self.value)

    def has(self, **properties: str) -> bool:
        """Whether the entry has some properties, such as arena="vit"."""
        return all(getattr(self, key) == value for key, value in properties.items())


@dataclass(frozen=True)
class Publication:
    """The printed numbers of a publication, in its order. The suite with the same name has its settings."""

    name: str
    entries: tuple[Entry, ...]

    def all(self, *statistics: str) -> list[Entry]:
        """The entries of some statistics, in the order of the publication."""
        return [entry for entry in self.entries if entry.statistic in statistics]

    def number(self, statistic: str, **properties: str) -> Decimal | None:
        """The first number of a statistic with some properties, such as arena="vit"; None if none is printed."""
        for entry in self.all(statistic):
            if entry.has(**properties):
                return entry.number
        return None


def publication_names() -> list[str]:
    """The names of the publications that come with fairbench."""
    names = []
    for file in PUBLICATIONS.iterdir():
        if file.name.endswith(".csv"):
            names.append(file.name.removesuffix(".csv"))
    return sorted(names)


def load_publication(name: str) -> Publication:
    """Read a publication by its name, which is one of `publication_names`."""
    text = (PUBLICATIONS / f"{name}.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return Publication(name, tuple(Entry(**row) for row in rows))


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


@dataclass(frozen=True)
class PublishedFamily:
    """The comparisons of a publication that are corrected together.

    In each arena only one metric is compared: the first metric whose mean the publication prints.

    Attributes:
        baselines: the baselines that the optimizers are compared with; empty for all.
    """

    publication: Publication
    baselines: Sequence[str]

    def comparisons(self) -> list[Comparison]:
        """The comparisons in the order of the publication, before any correction.

        Raises:
            UsageError: the publication does not compare with a baseline, or does not print a number of a test.
        """
        compared = self.publication.all("verdict")
        known = {entry.baseline for entry in compared}
        for name in self.baselines:
            if name not in known:
                raise unknown("baseline", name, known)
        metrics: dict[str, str] = {}
        for entry in self.publication.all("mean"):
            metrics.setdefault(entry.arena, entry.metric)
        wanted_baselines = self.baselines or known
        comparisons = []
        for entry in compared:
            if entry.metric == metrics[entry.arena] and entry.baseline in wanted_baselines:
                comparisons.append(self._comparison(entry))
        return comparisons

    def _comparison(self, entry: Entry) -> Comparison:
        """The comparison of two printed arms by Welch's test, before any correction."""
        ours = self._arm(entry.arena, entry.metric, entry.optimizer)
        theirs = self._arm(entry.arena, entry.metric, entry.baseline)
        comparison = Comparison(
            arena=entry.arena,
            metric=entry.metric,
            direction=ARENAS[entry.arena].metrics[entry.metric],
            optimizer=entry.optimizer,
            baseline=entry.baseline,
            n_optimizer=ours.n,
            n_baseline=ours.n,
            seeds=ours.n,
        )
        return summarized(comparison, ours, theirs)

    def _arm(self, arena: str, metric: str, optimizer: str) -> Summary:
        """The printed summary of an arm. A number that is not printed is an error."""
        arm = {"arena": arena, "metric": metric, "optimizer": optimizer}
        n = self.publication.number("n")
        mean = self.publication.number("mean", **arm)
        std = self.publication.number("std", **arm)
        if n is None or mean is None or std is None:
            numbers = {"n": n, "mean": mean, "std": std}
            missing = ", ".join(name for name, number in numbers.items() if number is None)
            raise UsageError(f"{self.publication.name} prints no {missing} of {arena}, {metric}, {optimizer}")
        return Summary(int(n), float(mean), float(std))

    def printed_p(self, comparison: Comparison) -> float | None:
        """The printed p-value of a comparison, None if none is printed."""
        p = self.publication.number(
            "p",
            arena=comparison.arena,
            metric=comparison.metric,
            optimizer=comparison.optimizer,
            baseline=comparison.baseline,
        )
        return None if p is None else float(p)


def published_comparisons(
    publication: Publication, alpha: float, baselines: Sequence[str] = ()
) -> list[PublishedComparison]:
    """Judge the comparisons of a publication, in its order.

    Args:
        publication: the publication.
        alpha: the error rate of the family of all these comparisons.
        baselines: the baselines that are compared with; empty for all.

    Raises:
        UsageError: the publication does not compare with such a baseline, or does not print a number that a test needs.
    """
    family = PublishedFamily(publication, baselines)
    judged = judge(family.comparisons(), alpha, min_seeds=FEWEST_SEEDS)
    printed = [family.printed_p(comparison) for comparison in judged]
    corrected: Sequence[float | None] = [None for _ in printed]
    if None not in printed:  # Holm's correction needs the whole family
        corrected = holm(printed)
    return [PublishedComparison(*row) for row in zip(judged, printed, corrected, strict=True)]
