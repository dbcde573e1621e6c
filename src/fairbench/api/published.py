"""Verdicts on results that are not a study of fairbench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fairbench.analysis.comparison.requirement import met, unmet
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.published.publication import (
    PublishedComparison,
    load_publication,
    publication_names,
    published_comparisons,
)
from fairbench.analysis.tables.judging import table_verdicts
from fairbench.analysis.tables.question import ALPHA, Question
from fairbench.analysis.tables.readers.content import nearest_path
from fairbench.analysis.tables.readers.files import files_of, pattern_of_files
from fairbench.api.study import open as open_study
from fairbench.common.errors import UsageError, nearest, unknown
from fairbench.report.fields import names_of
from fairbench.report.table import Table
from fairbench.study.folder import CONFIG

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, repr=False)
class Verdicts(Table[Comparison]):
    """Comparisons at a family-wise error rate; those of a publication also as it prints them.

    Attributes:
        read_as: how a table was read: what its columns are, the runs of each optimizer, and the better values.
        across: the comparisons over all arenas of a table with one value of each optimizer in each arena.
        notes: what was skipped, merged or assumed when a table was read.
        declared: those of a study by the plan that was declared before its first final trial.
    """

    alpha: float = ALPHA
    published: Sequence[PublishedComparison] = ()
    read_as: str = ""
    across: Sequence[Comparison] = ()
    notes: Sequence[str] = ()
    declared: Sequence[Comparison] = ()

    def to_json(self) -> dict[str, Any]:
        """The comparisons, those over all arenas, their error rate, and how the table was read."""
        return {
            "alpha": self.alpha,
            "read_as": self.read_as,
            "notes": list(self.notes),
            "comparisons": self.to_dicts(),
            "across": [asdict(row) for row in self.across],
        }

    def to_latex(self) -> str:
        r"""The comparisons as a table for `\input` in LaTeX, and those over all arenas as a second one.

        >>> fb.verdicts("results/mine").to_latex().count("toprule")
        1
        """
        from fairbench.report.render.latex import to_latex
        from fairbench.report.sections.results import table_of_comparisons  # slow to import

        families = [self.rows, self.across] if self.across else [self.rows]
        return "\n".join(to_latex(table_of_comparisons(family, self.alpha)) for family in families)

    def unmet(self, requirement: str) -> str:
        """A sentence on the comparisons for which a requirement does not hold; empty if it holds for each of them.

        Args:
            requirement: "better", "no-worse" (than by the margin), or "equivalent".

        >>> fb.verdicts("results/mine").unmet("equivalent")
        ''
        """
        return unmet(self.rows, requirement, self.alpha, declared=self.declared)

    def met(self, requirement: str) -> str:
        """A sentence on what shows that a requirement holds, if `unmet` is empty.

        Args:
            requirement: "better", "no-worse" (than by the margin), or "equivalent".

        >>> fb.verdicts("results/mine").met("equivalent").partition(":")[0]
        'equivalent holds at 0.05'
        """
        return met(self.rows, requirement, self.alpha)

    def __rich__(self) -> Group:
        from fairbench.report.console import publication_view, verdicts_view

        if self.published:
            return publication_view(self.published, self.alpha)
        return verdicts_view(self.rows, self.alpha, self.notes, read_as=self.read_as, across=self.across)


def verdicts(
    source: Any,
    optimizer: str = "",
    better: Literal["", "lower", "higher"] = "",
    baselines: Sequence[str] = (),
    alpha: float = ALPHA,
    *,
    columns: Mapping[str, str] | None = None,
    metric: str = "",
    at: str | float = "",
    margin: float | None = None,
    reference_value: float | None = None,
    test: Literal["", "paired", "welch"] = "",
    min_seeds: int = 3,
    name: str = "",
) -> Verdicts:
    r"""Judge the results of a table, or of a publication, by the rules of a study; or show the verdicts of a study.

    Args:
        source: a file of CSV or JSON, "-" for standard input, an open file, a data frame, or rows; with a row for each
            run or for each mean, or a column for each optimizer. Or the name of a publication, which is "paper"; it has
            its own optimizer and metrics. Or the directory of a study, which has its verdicts. Or several
            files, as a list of paths or a folder, whose paths say the optimizer and the seed.
        optimizer: the one that is compared with the others; empty for a name as "ours", for all others against a name
            as "baseline", or else for every pair; with `reference_value` for each.
        better: whether lower or higher values are better; empty where a column `better` or the metric's name says it.
        baselines: the optimizers to compare it with; empty for all.
        alpha: family-wise error rate, between 0 and 1.
        columns: what the columns are if their names do not say it, such as {"optimizer": "model", "value": "val/acc"}.
        metric: what is judged where there are several metrics: a column, or a name in the column metric.
        at: the point of curves that is judged: "last", "best", or a step.
        margin: the largest difference that does not matter; None for no test of equivalence, or for a column margin.
        reference_value: a number to compare each mean with, in place of other optimizers.
        test: the test of two optimizers, "paired" over the seeds in common or "welch" of all runs; empty for the
            paired test where they have the same seeds, none where one lacks some, and Welch's test otherwise.
        min_seeds: the fewest seeds of an optimizer for a verdict other than inconclusive, at least 2.
        name: a regular expression whose named groups are columns, such as optimizer and seed: of the paths of several
            files, or of the names of runs in one table; empty for the parts in which paths or names differ.

    Returns:
        The comparisons; in `read_as` how the table was read, and in `notes` what was skipped, merged or assumed.

    Raises:
        UsageError: the table cannot be read, may mean two things, or has a wrong or repeated value; or there is no such
            publication.

    >>> rows = ["mnist,Mine,0.91,0.01,10", "mnist,AdamW,0.88,0.01,10"]
    >>> _ = Path("table.csv").write_text("\n".join(["arena,optimizer,mean,std,n", *rows]))
    >>> fb.verdicts("table.csv", better="higher")[0].verdict
    'better'
    """
    if isinstance(baselines, str):
        baselines = [baselines]
    question = Question(
        optimizer=optimizer,
        better=better,
        baselines=tuple(baselines),
        alpha=alpha,
        columns=columns or {},
        metric=metric,
        at=str(at),
        margin=margin,
        reference_value=reference_value,
        test=test,
        min_seeds=min_seeds,
        name=name,
    )
    directory = _directory_of_study(source)
    if directory:
        return _of_study(directory, question)
    if _is_name(source):
        return _of_publication(source, question)
    judged = table_verdicts(source, question)
    return Verdicts(
        judged.comparisons,
        names_of(Comparison),
        alpha=question.alpha,
        read_as=judged.read_as,
        across=judged.across,
        notes=judged.notes,
    )


def _directory_of_study(source: Any) -> Path | None:
    """The source of verdicts as the directory of a study; None for a folder with tables of runs, and for no folder.

    A folder without a study and without such tables counts as a directory, so that its study is missed.

    Raises:
        UsageError: the folder holds no study, but files which may be tables; the message has their pattern.
    """
    if not isinstance(source, str | Path) or source == "-":
        return None
    directory = Path(source)
    if not directory.is_dir():
        return None
    if (directory / CONFIG).exists():
        return directory
    if files_of(directory):
        return None
    pattern = pattern_of_files(directory)
    if pattern:
        raise UsageError(
            f"{directory} holds no study, since it has no {CONFIG}; if its files are tables of runs, give {pattern}"
        )
    return directory


def _check_name(name: str) -> None:
    """Raise `UsageError` if there is no publication with a name, which may be meant for that of a file."""
    names = publication_names()
    if name in names:
        return
    file = nearest_path(Path(name))
    is_path = "/" in name or (file and not nearest(name, names))
    if is_path:
        raise UsageError(f"there is neither a file nor a publication {name}{file}")
    raise unknown("publication", name, names)


def _of_study(directory: Path, question: Question) -> Verdicts:
    """The verdicts of a study, at the error rate and in the words of its suite, which answer another question."""
    if question != Question():
        raise UsageError(f"{directory} is a study, whose suite has baselines, margins and alpha; leave the options out")
    analyses = open_study(directory).analyses
    suite = analyses.suite
    return Verdicts(
        analyses.comparisons,
        names_of(Comparison),
        wording=suite.wording,
        alpha=suite.alpha,
        declared=analyses.declared_comparisons,
    )


def _is_name(source: Any) -> bool:
    """Whether a source of verdicts is the name of a publication, rather than a table."""
    if not isinstance(source, str) or source == "-":
        return False  # it holds rows, or stands for standard input
    path = Path(source)
    return not path.suffix and not path.exists() and "*" not in source


def _of_publication(name: str, question: Question) -> Verdicts:
    """The verdicts of a publication, which has its own optimizer and metrics."""
    if question != Question(baselines=question.baselines, alpha=question.alpha):
        raise UsageError(f"{name} is a publication, which takes only --baselines and --alpha; leave the others out")
    _check_name(name)
    published = published_comparisons(load_publication(name), question.alpha, question.baselines)
    comparisons = [pair.comparison for pair in published]
    return Verdicts(comparisons, names_of(Comparison), alpha=question.alpha, published=published)
