"""The gains over the baselines at each evaluation of the training: what the verdict tests, before the end."""

import math
from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.seed_gains import GainAtStep, gain_curve
from fairbench.common.formatting import interval
from fairbench.common.grouping import grouped
from fairbench.report.figures.canvas import finished, titles
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.leaderboard import shown_gains
from fairbench.report.figures.panel import LABEL_HEIGHT, Panel, Point, mark
from fairbench.report.figures.style import ArmStyle, ArmStyles, step_label

MOST_BARS = 4
"""The most lines of a panel for which intervals are drawn."""
APART = 0.012
"""The distance between the bars of neighboring arms, as a share of the length of training."""
LINE_WIDTH = 1.6
BAR_WIDTH = 1.2


def draw_learning_gains(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of the gains over the training, with a line for each comparison; None without any gain.

    The comparisons are those of the figure of the gains at the end.
    """
    comparisons, has_one_optimizer = shown_gains(analyses)
    curves = {comparison.pair: gain_curve(analyses.results, comparison) for comparison in comparisons}
    by_arena = grouped((comparison.arena, comparison) for comparison in comparisons if curves[comparison.pair])
    if not by_arena:
        return None
    first = comparisons[0]
    line_of = "optimizer"  # the side of a comparison whose name and style its line has
    whose = f"over {styles[first.baseline].label}"
    if has_one_optimizer:
        line_of = "baseline"
        whose = f"of {styles[first.optimizer].label} over each"
    arms = dict.fromkeys(getattr(comparison, line_of) for comparison in comparisons)
    figure, panels = line_panels(titles(analyses.suite, by_arena), [styles[name] for name in arms])
    for arena, panel in panels.items():
        lines = {getattr(comparison, line_of): curves[comparison.pair] for comparison in by_arena[arena]}
        _draw_panel(panel, lines, styles, analyses.suite.arenas[arena].margin)
        panel.axes.set(xlabel=step_label(analyses.suite), ylabel="gain (up is better)")
    caption = _caption(analyses, whose)
    return finished(figure, panels, "learning_gains", "Gains over the training", caption)


def _draw_panel(panel: Panel, lines: dict[str, list[GainAtStep]], styles: ArmStyles, margin: float) -> None:
    """Draw a line for each comparison in an arena, by the name of its arm, with the margin as a band.

    If there are few lines, their intervals are drawn too, and the lines are moved aside, so that no bar hides another.
    """
    axes = panel.axes
    panel.best = "high"
    panel.columns = ("training step", "gain", "low", "high")
    axes.axhspan(-margin, margin, color=LIGHT["margin"], linewidth=0, zorder=0)
    axes.axhline(0, color=LIGHT["edge"], linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    has_bars = len(lines) <= MOST_BARS
    middle = (len(lines) - 1) / 2
    for place, (name, curve) in enumerate(lines.items()):
        last_step = curve[-1].step
        shift = (place - middle) * APART * last_step if has_bars else 0.0
        _draw_line(panel, name, styles[name], curve, shift=shift, has_bars=has_bars)
    axes.set_yscale("symlog", linthresh=margin)
    axes.yaxis.set_major_locator(FixedLocator(_ticks(panel, margin)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def _draw_line(
    panel: Panel, name: str, style: ArmStyle, curve: Sequence[GainAtStep], shift: float, has_bars: bool
) -> None:
    """Draw the gain of a comparison over the training, moved by `shift` steps, and its intervals as bars if asked."""
    axes = panel.axes
    steps = [point.step + shift for point in curve]
    gains = [point.gain for point in curve]
    line = axes.plot(
        steps, gains, color=style.color, linestyle=style.dash, linewidth=LINE_WIDTH, marker=style.marker, markersize=4
    )
    mark(panel, style, *line)
    if has_bars:
        mark(panel, style, *_bars(axes, style, steps, curve))
    for step, point in zip(steps, curve, strict=True):
        text = f"{name}, step {point.step}: {interval(point.gain, point.ci_low, point.ci_high)}"
        numbers = (point.step, point.gain, point.ci_low, point.ci_high)
        panel.points.append(Point(x=step, y=point.gain, arm=style.index, numbers=numbers, text=text))
    panel.said.append(f"{text}.")
    panel.ends[style.end] = style, (steps[-1], gains[-1])


def _bars(axes: Axes, style: ArmStyle, steps: Sequence[float], curve: Sequence[GainAtStep]) -> list[Artist]:
    """Draw the intervals of a line, at the places of its steps, as far as there are any."""
    places = []
    lows = []
    highs = []
    for step, point in zip(steps, curve, strict=True):
        if point.ci_low is not None and point.ci_high is not None:
            places.append(step)
            lows.append(point.ci_low)
            highs.append(point.ci_high)
    if not places:
        return []
    return [axes.vlines(places, lows, highs, color=style.color, linewidth=BAR_WIDTH)]


def _ticks(panel: Panel, margin: float) -> list[float]:
    """The ticks of the y axis: 0, both ends of the margin, and the powers of ten beyond it.

    A power whose label would overlap that of the tick before it is left out.
    """
    axes = panel.axes
    farthest = float(max(map(abs, axes.get_ylim())))
    lowest_power = math.floor(math.log10(margin)) + 1
    highest_power = math.floor(math.log10(farthest))
    powers = [10.0**exponent for exponent in range(lowest_power, highest_power + 1)]
    kept = [margin]
    for power in powers:
        height = _height(axes, power) * panel.inner_height
        height_before = _height(axes, kept[-1]) * panel.inner_height
        if height - height_before >= LABEL_HEIGHT:
            kept.append(power)
    return [*(-tick for tick in reversed(kept)), 0.0, *kept]


def _height(axes: Axes, value: float) -> float:
    """The place of a value of the y axis, as a share of the height of the axes."""
    _, height = (axes.transData + axes.transAxes.inverted()).transform((axes.get_xlim()[0], value))
    return float(height)


def _caption(analyses: Analyses, whose: str) -> str:
    """The caption of the figure."""
    suite = analyses.suite
    how = "paired by seed" if suite.final.test == "paired" else "of the two means"
    return (
        f"Gains over the training: the gain {whose} at each evaluation on the {suite.selection_name} split, mean over "
        f"the seeds, with the 95% interval {how} where there are up to {MOST_BARS} lines. These intervals are not "
        "corrected, and decide nothing: the verdicts are about the end, on the test split. The band is the margin; "
        "beyond it the axis is logarithmic. Marks at one step are drawn side by side."
    )
