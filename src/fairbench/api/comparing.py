"""Comparisons of a study with another one, or with a publication."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

from fairbench.analysis.published.publication import load_publication, publication_names
from fairbench.analysis.published.replication import ValueRow, VerdictRow
from fairbench.analysis.two_studies import TwoArms
from fairbench.api.study import Page, Study
from fairbench.common.errors import UsageError, unknown
from fairbench.report.document import Document
from fairbench.report.page import write_document
from fairbench.report.replication import CostRow, Replication, replicated
from fairbench.report.table import Table
from fairbench.report.two_studies import TwoStudies, summary, two_studies


@dataclass(frozen=True, repr=False)
class Compared:
    """Two studies side by side; columns that end in _a and _b are of the first and the second.

    Attributes:
        document: what both have, and what differs.

    >>> compared = fb.compare(fb.open("results/mine"), fb.open("results/mine"))
    >>> len(compared.plans())
    0
    """

    document: Document[TwoStudies]

    @property
    def summary(self) -> str:
        """The comparison in numbers.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).summary.partition(";")[0]
        '1 comparison in both'
        """
        return summary(self.document.source)

    def verdicts(self) -> Table[dict[str, Any]]:
        """The comparisons that both have, with the columns of compare_verdicts.csv.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).verdicts()[0]["changed"]
        False
        """
        return self.document.table("compare_verdicts")

    def arms(self) -> Table[TwoArms]:
        """The values of each optimizer in each arena of both, with the columns of compare_arms.csv.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).arms()[0].method
        'paired'
        """
        return self.document.table("compare_arms")

    def plans(self) -> Table[dict[str, Any]]:
        """The settings that differ, with the columns of compare_plans.csv.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).plans()
        no rows; columns: setting, a, b
        """
        return self.document.table("compare_plans")

    def report(self, directory: str | Path) -> Page:
        """Write the CSV files and the page.

        Raises:
            UsageError: the directory cannot be written.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).report("compared").path.name
        'compare.html'
        """
        return Page(write_document(self.document, Path(directory))[-1], self.document)

    def __repr__(self) -> str:
        return f"<{self.document.title}: {self.summary}>"


@dataclass(frozen=True, repr=False)
class Replicated:
    """The values, verdicts and costs of a study next to the published ones.

    Attributes:
        document: what was published, and what the study has of it.

    >>> fb.compare("results/mine", "paper")
    <Replicated of paper: 1 of 15 published verdicts can be compared>
    """

    document: Document[Replication]

    def values(self) -> Table[ValueRow]:
        """The published means and those of the study, with the columns of comparison_paper.csv.

        >>> fb.compare("results/mine", "paper").values()[0].place
        'Table 2'
        """
        return self.document.table(f"comparison_{self.document.title}")

    def verdicts(self) -> Table[VerdictRow]:
        """The published verdicts and those of the study, with the columns of comparison_paper_verdicts.csv.

        >>> fb.compare("results/mine", "paper").verdicts()[0].optimizer
        'PsiLogic'
        """
        return self.document.table(f"comparison_{self.document.title}_verdicts")

    def cost(self) -> Table[CostRow]:
        """The published cost and that of the study, with the columns of comparison_paper_cost.csv.

        >>> len(fb.compare("results/mine", "paper").cost())
        16
        """
        return self.document.table(f"comparison_{self.document.title}_cost")

    def save(self, directory: str | Path) -> list[Path]:
        """Write the three tables as CSV files.

        Raises:
            UsageError: the directory cannot be written.

        >>> [path.name for path in fb.compare("results/mine", "paper").save("compared")][0]
        'comparison_paper.csv'
        """
        return write_document(self.document, Path(directory))

    def __repr__(self) -> str:
        found = self.document.source
        both = sum(row.agree is not None for row in found.verdicts)
        among = f"{both} of {len(found.verdicts)} published verdicts can be compared"
        return f"<Replicated of {found.publication.name}: {among}>"


@overload
def compare(a: Study | str | Path, b: Literal["paper"]) -> Replicated: ...
@overload
def compare(a: Study | str | Path, b: Study | Path) -> Compared: ...
@overload
def compare(a: Study | str | Path, b: Study | str | Path) -> Compared | Replicated: ...
def compare(a: Study | str | Path, b: Study | str | Path) -> Compared | Replicated:
    """Compare a study with another study, or with a publication.

    Args:
        a: a study, or its directory.
        b: another one, or the name of a publication, which is "paper".

    Raises:
        UsageError: there is no such study or publication, or no optimizer is in the same arena of both studies.

    >>> fb.compare(fb.open("results/mine"), fb.open("results/mine")).arms()[0].optimizer
    'AdamW'
    >>> fb.compare("results/mine", "paper")
    <Replicated of paper: 1 of 15 published verdicts can be compared>
    """
    if str(a) in publication_names() and not Path(str(a)).is_dir():
        raise UsageError(f"{a} is a publication, and the study comes first: fairbench compare {b} {a}")
    published = b in publication_names()
    if not (published or isinstance(b, Study) or Path(b).is_dir()):
        raise unknown("directory or publication", str(b), publication_names())
    first = a if isinstance(a, Study) else Study(a)
    if published:
        return Replicated(replicated(load_publication(str(b)), first.analyses))
    second = b if isinstance(b, Study) else Study(b)
    names = [study.directory.resolve().name for study in (first, second)]
    return Compared(two_studies(first.analyses, second.analyses, names))
