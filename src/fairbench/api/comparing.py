"""Comparisons of two studies for Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbench.api.study import Page, Study
from fairbench.api.table import Table
from fairbench.report.two_studies import TwoStudies, compared_tables, two_studies, views, write_two_studies


@dataclass(frozen=True, repr=False)
class Compared:
    """Two studies side by side; columns that end in _a and _b are of the first and the second.

    Attributes:
        found: what both have, and what differs.

    >>> compared = fb.compare(fb.open("results/mine"), fb.open("results/mine"))
    >>> len(compared.plans())
    0
    """

    found: TwoStudies

    @property
    def summary(self) -> str:
        """The comparison in numbers.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).summary.partition(";")[0]
        '1 comparison in both'
        """
        return self.found.summary

    def verdicts(self) -> Table[dict[str, Any]]:
        """The comparisons that both have, with the columns of compare_verdicts.csv.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).verdicts()[0]["changed"]
        False
        """
        return self._table("verdicts")

    def arms(self) -> Table[dict[str, Any]]:
        """The values of each optimizer in each arena of both, with the columns of compare_arms.csv.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).arms()[0]["method"]
        'paired'
        """
        return self._table("arms")

    def plans(self) -> Table[dict[str, Any]]:
        """The settings that differ, with the columns of compare_plans.csv.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).plans()
        no rows; columns: setting, a, b
        """
        return self._table("plans")

    def report(self, directory: str | Path) -> Page:
        """Write the CSV files and the page.

        Raises:
            UsageError: the directory cannot be written.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).report("compared").path.name
        'compare.html'
        """
        return Page(write_two_studies(self.found, Path(directory))[-1])

    def _table(self, name: str) -> Table[dict[str, Any]]:
        view = views(self.found).get({"arms": "values"}.get(name, name))
        table = compared_tables(self.found)[f"compare_{name}.csv"]
        columns = tuple(table.columns)
        return Table([dict(zip(columns, row, strict=True)) for row in table.rows], columns, view)

    def __repr__(self) -> str:
        return f"<{self.found.title}: {self.summary}>"


def compare(a: Study | str | Path, b: Study | str | Path) -> Compared:
    """Compare two studies.

    Args:
        a: a study, or its directory.
        b: another one.

    Raises:
        UsageError: there is no such study, or no optimizer is in the same arena of both.

    >>> fb.compare("results/mine", "results/mine").arms()[0]["optimizer"]
    'AdamW'
    """
    studies = [x if isinstance(x, Study) else Study(x) for x in (a, b)]
    names = [study.directory.resolve().name for study in studies]
    first, second = (study.analyses for study in studies)
    return Compared(two_studies(first, second, names))
