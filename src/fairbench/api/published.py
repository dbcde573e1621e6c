"""Verdicts on results that are not a study of fairbench."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.published.user_table import table_comparisons
from fairbench.report.table import Table, table_of


def verdicts(
    path: str | Path,
    *,
    reference: str = "",
    better: Literal["", "lower", "higher"] = "",
    baselines: Sequence[str] = (),
    alpha: float = 0.05,
) -> Table[Comparison]:
    r"""Judge the results of a CSV file by the rules of a study.

    Args:
        path: the file, with the columns arena, optimizer, seed, value; or arena, optimizer, mean, std, n.
        reference: the optimizer that is compared with the others; empty for the first one of the file.
        better: whether lower or higher values are better; empty where the file has a column `better`.
        baselines: the optimizers to compare it with; empty for all.
        alpha: family-wise error rate.

    Returns:
        The comparisons. Without a margin, none is equivalent.

    Raises:
        UsageError: the file cannot be read, lacks a column, or has a wrong or repeated value.

    >>> rows = ["mnist,Mine,0.91,0.01,10", "mnist,AdamW,0.88,0.01,10"]
    >>> _ = Path("table.csv").write_text("\n".join(["arena,optimizer,mean,std,n", *rows]))
    >>> fb.verdicts("table.csv", better="higher")[0].verdict
    'better'
    """
    found = table_comparisons(Path(path), reference=reference, better=better, baselines=baselines, alpha=alpha)
    return table_of(Comparison, found)
