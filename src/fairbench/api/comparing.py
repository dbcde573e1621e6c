"""Comparisons of a study with another one, or with a publication."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbench.analysis.published.publication import load_publication, publication_names
from fairbench.api.study import Study
from fairbench.common.errors import UsageError, unknown
from fairbench.report.document import Document
from fairbench.report.page import write_document
from fairbench.report.replication import replicated
from fairbench.report.table import Table
from fairbench.report.two_studies import two_studies


@dataclass(frozen=True, repr=False)
class Compared:
    """Two studies side by side, or a study next to a publication; columns with _a and _b are of the two studies.

    Attributes:
        document: what both have, and what differs.

    >>> fb.compare("results/mine", "paper")
    <Compared, paper: 1 of 15 published verdicts can be compared>
    """

    document: Document[Any]

    @property
    def summary(self) -> str:
        """The comparison in numbers.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).summary.partition(";")[0]
        '1 comparison in both'
        """
        return str(self.document.source.summary)

    def table(self, name: str) -> Table[Any]:
        """A data file of the comparison by its name without the ending.

        Raises:
            UsageError: there is no such file.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).table("compare_arms")[0].method
        'paired'
        >>> fb.compare(study, "paper").table("comparison_paper")[0].place
        'Table 2'
        """
        return self.document.table(name)

    def save(self, directory: str | Path) -> list[Path]:
        """Write the CSV files, and of two studies the page.

        Returns:
            The files, the page last.

        Raises:
            UsageError: the directory cannot be written.

        >>> study = fb.open("results/mine")
        >>> fb.compare(study, study).save("compared")[-1].name
        'compare.html'
        """
        return write_document(self.document, Path(directory))

    def __repr__(self) -> str:
        return f"<Compared, {self.document.title}: {self.summary}>"


def compare(a: Study | str | Path, b: Study | str | Path) -> Compared:
    """Compare a study with another study, or with a publication.

    Args:
        a: a study, or its directory.
        b: another one, or the name of a publication, which is "paper".

    Raises:
        UsageError: there is no such study or publication, or no optimizer is in the same arena of both studies.

    >>> fb.compare(fb.open("results/mine"), fb.open("results/mine")).table("compare_arms")[0].optimizer
    'AdamW'
    """
    publications = publication_names()
    if str(a) in publications and not Path(str(a)).is_dir():
        raise UsageError(f"{a} is a publication, and the study comes first: fairbench compare {b} {a}")
    is_study = isinstance(b, Study) or Path(b).is_dir()
    if b not in publications and not is_study:
        error = unknown("directory or publication", str(b), publications)
        raise UsageError(f"{error}; to compare optimizers: fairbench run mini --optimizers A,B")
    first = _opened(a)
    if b in publications:
        publication = load_publication(str(b))
        return Compared(replicated(publication, first.analyses))
    second = _opened(b)
    names = [study.directory.resolve().name for study in (first, second)]
    return Compared(two_studies(first.analyses, second.analyses, names))


def _opened(study: Study | str | Path) -> Study:
    """A study that is given itself, or by its directory."""
    if isinstance(study, Study):
        return study
    return Study(study)
