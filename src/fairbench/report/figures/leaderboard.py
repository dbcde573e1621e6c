"""The figure of the leaderboard: the gain of each optimizer over the reference in each arena."""

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.report.figures.canvas import Drawing
from fairbench.report.figures.intervals import Interval, draw_intervals
from fairbench.report.figures.labels import LABEL_HEIGHT
from fairbench.report.figures.style import ArmStyle, ArmStyles, short_names


def draw_leaderboard(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """Every optimizer against the reference: a panel for each arena, or for each optimizer if they are far fewer."""
    suite = analyses.suite
    shown = [c for c in analyses.comparisons if c.reference == suite.reference and c.advantage is not None]
    by_baseline = 2 * len({c.baseline for c in shown}) <= len({c.arena for c in shown})
    arenas = short_names([*suite.arenas])
    rows: dict[str, list[Interval]] = {}
    for c in shown:
        style = styles[c.baseline]
        if by_baseline:
            row = _row(c, arenas[c.arena], f"{c.baseline}, {c.arena}, in margins", style, suite.arenas[c.arena].margin)
            rows.setdefault(style.label, []).append(row)
        else:
            rows.setdefault(c.arena, []).append(_row(c, style.label, c.baseline, style, 1.0))
    margins = {name: 1.0 if by_baseline else suite.arenas[name].margin for name in rows}
    axis = f"gain over {styles[suite.reference].label}{', in margins' if by_baseline else ''} (right is better)"
    caption = (
        f"Leaderboard: the gain of each optimizer over {suite.reference} on the test split, to the right where it is "
        f"better{', in multiples of the margin of each arena' if by_baseline else ''}; the tables have its opposite, "
        f"the advantage of {suite.reference}. Mean over the seeds "
        "with its 95% confidence interval, not corrected. Filled: the verdict is better or worse. The band is the "
        "margin, within which differences do not matter; beyond it the axis is logarithmic. Arms of which a seed "
        "diverged are left out."
    )
    ranked = {panel: sorted(of_panel, key=lambda row: -row.value) for panel, of_panel in rows.items()}
    return draw_intervals(ranked, "leaderboard", "Leaderboard", axis, caption, LABEL_HEIGHT, margins)


def _row(c: Comparison, label: str, name: str, style: ArmStyle, unit: float) -> Interval:
    """The gain of a baseline over the reference, divided by a unit."""
    assert c.advantage is not None
    same = c.verdict in ("identical", "identical values")  # no seed differs: Welch's interval is not about that
    low, high = (None, None) if same or c.ci_low is None or c.ci_high is None else (-c.ci_high / unit, -c.ci_low / unit)
    return Interval(label, name, style, 0.0 - c.advantage / unit, low, high, c.verdict in ("better", "worse"))
