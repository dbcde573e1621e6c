"""The figure of the leaderboard: the advantage of each optimizer over the reference in each arena."""

import math

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from fairbench.analysis.analyses import Analyses
from fairbench.report.figures.canvas import BOTTOM, TOP, Drawing, Looks, Panel, finished, panels, short
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.intervals import Interval, draw_rows
from fairbench.report.figures.labels import LABEL_HEIGHT, width_for

FEWEST = 3
"""Baselines that make a leaderboard."""


def draw_leaderboard(analyses: Analyses, looks: Looks) -> Drawing | None:
    """Every optimizer against the reference, the best at the top of each arena."""
    suite = analyses.suite
    rows: dict[str, list[Interval]] = {}
    for c in analyses.comparisons:
        if c.reference == suite.reference and c.advantage is not None:
            low, high = (None, None) if c.ci_low is None or c.ci_high is None else (-c.ci_high, -c.ci_low)
            sure = c.verdict in ("better", "worse")
            row = Interval(short(c.baseline), looks[c.baseline], -c.advantage, low, high, sure)
            rows.setdefault(c.arena, []).append(row)
    if max(map(len, rows.values()), default=0) < FEWEST:
        return None
    height = TOP + BOTTOM + LABEL_HEIGHT * max(map(len, rows.values()))
    left = min(2.9, width_for(row.label for of_arena in rows.values() for row in of_arena))
    figure, by_arena = panels({arena: arena for arena in rows}, height, left=left)
    for arena, panel in by_arena.items():
        draw_rows(panel, sorted(rows[arena], key=lambda row: -row.value))
        _measure(panel, suite.arenas[arena].margin)
        panel.axes.set_xlabel(f"advantage over {short(suite.reference)} (right is better)")
    caption = (
        f"Leaderboard: how much better than {suite.reference} each optimizer is on the test split, to the right where "
        "it is better; mean over the seeds with its 95% confidence interval, not corrected. Filled: the verdict is "
        "better or worse. The band is the margin within which nothing matters; beyond it the axis is logarithmic. Arms "
        "of which a seed diverged are left out."
    )
    return finished(figure, by_arena, "leaderboard", "Leaderboard", caption)


def _measure(panel: Panel, margin: float) -> None:
    """Draw the margin; the range within it is as wide as a decade beyond."""
    axes = panel.axes
    axes.axvspan(-margin, margin, color=LIGHT["rule"], linewidth=0, zorder=0)
    axes.set_xscale("symlog", linthresh=margin)
    lowest, highest = math.floor(math.log10(margin)) + 1, math.floor(math.log10(_reach(axes)))
    ticks = [margin, *(10.0**k for k in range(lowest, highest + 1))]
    axes.xaxis.set_major_locator(FixedLocator([*(-x for x in ticks), 0, *ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


def _reach(axes: Axes) -> float:
    """How far an axis goes from 0."""
    return float(max(map(abs, axes.get_xlim())))
