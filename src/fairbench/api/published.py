"""Verdicts on results that are not a study of fairbench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.published.publication import PublishedComparison, load_publication, published_comparisons
from fairbench.analysis.published.user_table import table_comparisons
from fairbench.common.errors import UsageError
from fairbench.report.table import Table, names_of

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, repr=False)
class Verdicts(Table[Comparison]):
    """Comparisons at a family-wise error rate; those of a publication also as it prints them."""

    alpha: float = 0.05
    published: Sequence[PublishedComparison] = ()

    def to_json(self) -> dict[str, Any]:
        """The comparisons and their error rate."""
        return {"alpha": self.alpha, "comparisons": [*map(asdict, self.rows)]}

    def __rich__(self) -> Group:
        from fairbench.report.console import publication_view, verdicts_view

        return publication_view(self.published, self.alpha) if self.published else verdicts_view(self.rows, self.alpha)


def verdicts(
    path: str | Path,
    optimizer: str = "",
    better: Literal["", "lower", "higher"] = "",
    baselines: Sequence[str] = (),
    alpha: float = 0.05,
) -> Verdicts:
    r"""Judge the results of a CSV file, or of a publication, by the rules of a study.

    Args:
        path: the file, with the columns arena, optimizer, seed, value; or arena, optimizer, mean, std, n. Or the name
            of a publication, which is "paper"; it has its own optimizer and metrics.
        optimizer: the one that is compared with the others; empty for the first one of the file.
        better: whether lower or higher values are better; empty where the file has a column `better`.
        baselines: the optimizers to compare it with; empty for all.
        alpha: family-wise error rate.

    Returns:
        The comparisons. Without a margin, none is equivalent.

    Raises:
        UsageError: the file cannot be read, lacks a column, or has a wrong or repeated value; or there is no such
            publication.

    >>> rows = ["mnist,Mine,0.91,0.01,10", "mnist,AdamW,0.88,0.01,10"]
    >>> _ = Path("table.csv").write_text("\n".join(["arena,optimizer,mean,std,n", *rows]))
    >>> fb.verdicts("table.csv", better="higher")[0].verdict
    'better'
    """
    columns = names_of(Comparison)
    if str(path).endswith(".csv") or Path(path).is_file():
        found = table_comparisons(Path(path), optimizer=optimizer, better=better, baselines=baselines, alpha=alpha)
        return Verdicts(found, columns, alpha=alpha)
    for option, value in (("--optimizer", optimizer), ("--better", better)):
        if value:
            raise UsageError(f"{option} {value} is for a CSV file, and {path} is a publication; leave it out")
    published = published_comparisons(load_publication(str(path)), alpha, baselines)
    return Verdicts([x.comparison for x in published], columns, alpha=alpha, published=published)
