"""What the control ladder shows, in sentences."""

from collections.abc import Sequence

from fairbench.analysis.causes import WHOLE, Contribution, contributions
from fairbench.analysis.results import Results


def causes(results: Results) -> str:
    """What each rung contributes in each arena, and which intervals leave out 0; empty without a ladder."""
    found = contributions(results)
    if not found:
        return ""
    arenas = [_arena([x for x in found if x.arena == arena]) for arena in results.study.suite.arenas]
    return (
        f"{' '.join(arenas)} Differences of neighbours on the ladder {' '.join(results.study.suite.ladder)}, positive "
        "where the later one is better, with 95% intervals that are paired by seed and not corrected: they say where a "
        "gain comes from, not that there is one; that is for the verdicts."
    )


def _arena(rows: Sequence[Contribution]) -> str:
    rungs, whole = [row for row in rows if row.part != WHOLE], rows[-1]
    parts = ", ".join(f"{row.optimizer} {_size(row)}" for row in rungs)
    clear = [row.optimizer for row in rungs if row.ci_low and row.ci_high and row.ci_low * row.ci_high > 0]
    outside = f"; 0 lies outside the interval of {', '.join(clear)}" if clear else ""
    return f"{whole.arena}: {parts}; the whole {_size(whole)}{outside}."


def _size(row: Contribution) -> str:
    if row.contribution is None:
        return f"unknown ({row.note})"
    interval = f" [{row.ci_low:+.2g}, {row.ci_high:+.2g}]" if row.ci_low is not None else f" ({row.note})"
    return f"{row.contribution:+.2g}{interval}"
