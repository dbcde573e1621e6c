"""Published results: each publication is a CSV file here, with a row for each printed number."""

import csv
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources

from fairbench.common.errors import unknown

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
    """Read a publication by its name.

    Raises:
        UsageError: there is no such publication.
    """
    if name not in publication_names():
        raise unknown("publication", name, publication_names())
    text = (PUBLICATIONS / f"{name}.csv").read_text(encoding="utf-8")
    return Publication(name, tuple(Entry(**row) for row in csv.DictReader(text.splitlines())))
