"""The verdicts on numbers that others published, for a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from fairbench.analysis.publication_verdicts import PublishedComparison
from fairbench.report.page import number, p_value
from fairbench.report.statement import Statement


def print_publication_verdicts(judged: Sequence[PublishedComparison], alpha: float, console: Console) -> None:
    """Print a row for each comparison, and what the columns are.

    Args:
        judged: the comparisons.
        alpha: family-wise error rate.
        console: where to print.
    """
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("arena", "metric", "baseline", "verdict"):
        grid.add_column(name, no_wrap=True)
    for name in (judged[0].comparison.reference, "baseline", "g", "p", "Holm p", "printed p", "Holm p"):
        grid.add_column(name, justify="right", no_wrap=True)
    for row in judged:
        c = row.comparison
        measured = number(c.mean_reference), number(c.mean_baseline), number(c.hedges_g, 2)
        tested = [p_value(p) for p in (c.p, c.p_holm, row.printed_p, row.printed_p_holm)]
        grid.add_row(c.arena, c.metric, c.baseline, Statement(c), *measured, *tested)
    console.print(grid)
    wins = sum(row.comparison.is_win for row in judged)
    console.print(
        f"{wins} of {len(judged)} better at {alpha:g}. p: Welch's test of the printed means and standard deviations of "
        f"{judged[0].comparison.seeds} seeds; Holm p: corrected for these {len(judged)} comparisons.",
        highlight=False,
    )
