"""The figure of the leaderboard: the gain of each optimizer over the reference in each arena."""

from fairbench.analysis.analyses import Analyses
from fairbench.report.figures.canvas import Drawing
from fairbench.report.figures.intervals import Interval, draw_intervals
from fairbench.report.figures.labels import LABEL_HEIGHT
from fairbench.report.figures.looks import Looks

FEWEST = 3
"""The smallest number of baselines that makes a leaderboard."""


def draw_leaderboard(analyses: Analyses, looks: Looks) -> Drawing | None:
    """Every optimizer against the reference, the best at the top of each arena."""
    suite = analyses.suite
    rows: dict[str, list[Interval]] = {}
    for c in analyses.comparisons:
        if c.reference == suite.reference and c.advantage is not None:
            same = c.verdict in ("identical", "identical values")  # no seed differs: Welch's interval is not about that
            low, high = (None, None) if c.ci_low is None or c.ci_high is None or same else (-c.ci_high, -c.ci_low)
            sure = c.verdict in ("better", "worse")
            look = looks[c.baseline]
            row = Interval(look.label, c.baseline, look, 0.0 - c.advantage, low, high, sure)
            rows.setdefault(c.arena, []).append(row)
    if max(map(len, rows.values()), default=0) < FEWEST:
        return None
    axis = f"gain over {looks[suite.reference].label} (right is better)"
    caption = (
        f"Leaderboard: the gain of each optimizer over {suite.reference} on the test split, to the right where it is "
        f"better; the tables have its opposite, the advantage of {suite.reference}. Mean over the seeds "
        "with its 95% confidence interval, not corrected. Filled: the verdict is better or worse. The band is the "
        "margin, within which differences do not matter; beyond it the axis is logarithmic. Arms of which a seed "
        "diverged are left out."
    )
    ranked = {arena: sorted(of_arena, key=lambda row: -row.value) for arena, of_arena in rows.items()}
    return draw_intervals(suite, ranked, "leaderboard", "Leaderboard", axis, caption, LABEL_HEIGHT, has_margin=True)
