"""Figures with a row for each value or optimizer: gains, causes and shocks with their intervals, and step times."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, NullLocator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.controls import WHOLE, contributions
from fairbench.analysis.comparison.shocks import shock_costs
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.cost import STEP_PHASES, Cost, costs
from fairbench.common.formatting import interval, number
from fairbench.common.grouping import grouped
from fairbench.report.figures.canvas import BOTTOM, TOP, Drawing, finished, panels, titles
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.labels import name_rows, width_for
from fairbench.report.figures.panel import LABEL_HEIGHT, Panel, Point, mark, moved
from fairbench.report.figures.style import ArmStyle, ArmStyles, marked_names, seeds_mark, short_names
from fairbench.report.figures.text import POINTS_PER_INCH, inner_width, panel_width, text_width, thin_ticks

ROW = 0.3
"""The height in inches of a row."""


class Interval(NamedTuple):
    """A row with a value, and an interval if it has one; a row that is not sure has an empty marker."""

    label: str
    name: str
    style: ArmStyle
    value: float
    low: float | None
    high: float | None
    sure: bool = True


def draw_intervals(
    rows: dict[str, list[Interval]],
    name: str,
    title: str,
    axis: str,
    caption: str,
    row_height: float = ROW,
    margins: Mapping[str, float] | None = None,
    reverse: bool = False,
) -> Drawing | None:
    """A panel for each arena, with a row for each value and a line at 0; reversed where lower is better."""
    if not rows:
        return None
    left = min(2.9, width_for(row.label for of_arena in rows.values() for row in of_arena))
    height = TOP + BOTTOM + row_height * max(map(len, rows.values()))
    figure, by_arena = panels({arena: arena for arena in rows}, height, left=left)
    for arena, panel in by_arena.items():
        panel.axes.set_xlabel(axis)
        panel.columns = axis, "low", "high"
        panel.axes.axvline(0, color=LIGHT["edge"], linewidth=1)
        for i, row in enumerate(rows[arena]):
            style = row.style
            along = [row.value] if row.low is None or row.high is None else [row.low, row.value, row.high]
            line: dict[str, Any] = {"color": style.color, "linewidth": 1.8, "marker": style.marker, "markersize": 7}
            line |= {"markerfacecolor": style.color if row.sure else LIGHT["paper"], "markevery": [len(along) // 2]}
            mark(panel, style, *panel.axes.plot(along, [i] * len(along), **line))
            text = f"{row.name}: {interval(row.value, row.low, row.high)}"
            panel.points.append(Point(row.value, i, style.index, (row.value, row.low, row.high), text))
            panel.said.append(f"{text}.")
        name_rows(panel, [(row.label, row.style) for row in rows[arena]], size=9)
        if margins:
            _draw_margin(panel.axes, margins[arena])
        if reverse:
            panel.axes.invert_xaxis()
    return finished(figure, by_arena, name, title, caption)


def _draw_margin(axes: Axes, margin: float) -> None:
    """Draw the margin as a band as wide as a decade beyond it, where the axis is logarithmic."""
    axes.axvspan(-margin, margin, color=LIGHT["rule"], linewidth=0, zorder=0)
    axes.set_xscale("symlog", linthresh=margin)
    farthest = float(max(map(abs, axes.get_xlim())))
    lowest, highest = math.floor(math.log10(margin)) + 1, math.floor(math.log10(farthest))
    ticks = [margin, *(10.0**k for k in range(lowest, highest + 1))]
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_locator(FixedLocator(thin_ticks(axes, ticks)))
    axes.xaxis.set_minor_locator(NullLocator())


def draw_leaderboard(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The gain of one optimizer over each baseline, or of each over the first: a panel for each arena, or each arm."""
    suite = analyses.suite
    optimizers, baselines = suite.sides
    of_one = len(optimizers) == 1
    shown = [c for c in analyses.comparisons if c.gain is not None and (of_one or c.baseline == baselines[0])]
    by_arm = 2 * len({c.pair[1:] for c in shown}) <= len({c.arena for c in shown})
    arenas = short_names([*suite.arenas])
    if not shown:
        return None
    rows: dict[str, list[Interval]] = {}
    for c in shown:
        name = c.baseline if of_one else c.optimizer
        style = styles[name]
        if by_arm:
            row = _row(c, arenas[c.arena], f"{name}, {c.arena}, in margins", style, suite.arenas[c.arena].margin)
            rows.setdefault(style.label, []).append(row)
        else:
            rows.setdefault(c.arena, []).append(_row(c, style.label, name, style, 1.0))
    margins = {name: 1.0 if by_arm else suite.arenas[name].margin for name in rows}
    whose = f"of {styles[optimizers[0]].label} over each" if of_one else f"over {styles[baselines[0]].label}"
    axis = f"gain {whose}{', in margins' if by_arm else ''} (right is better)"
    named = f"{optimizers[0]} over each baseline" if of_one else f"each optimizer over {baselines[0]}"
    caption = (
        f"The gain of {named} on the test split, to the right where the optimizer is "
        f"better{', in multiples of the margin of each arena' if by_arm else ''}. Mean over the seeds "
        "with its 95% confidence interval, not corrected. Filled: the verdict is better or worse. The band is the "
        "margin, within which differences do not matter; beyond it the axis is logarithmic. Arms of which a seed "
        "diverged are left out."
    )
    ranked = {panel: sorted(of_panel, key=lambda row: -row.value) for panel, of_panel in rows.items()}
    return draw_intervals(ranked, "leaderboard", "Gains", axis, caption, LABEL_HEIGHT, margins)


def _row(c: Comparison, label: str, name: str, style: ArmStyle, unit: float) -> Interval:
    """The gain of a comparison, divided by a unit."""
    assert c.gain is not None
    same = c.verdict in ("identical", "identical values")  # no seed differs: Welch's interval is not about that
    low, high = (None, None) if same or c.ci_low is None or c.ci_high is None else (c.ci_low / unit, c.ci_high / unit)
    return Interval(label, name, style, c.gain / unit, low, high, c.verdict in ("better", "worse"))


def draw_causes(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The contribution of each rung of the control ladder in each arena."""
    rows: dict[str, list[Interval]] = {}
    for x in analyses.of(contributions):
        if x.contribution is not None:
            style = styles[x.optimizer]
            names = ("the whole", "the whole") if x.part == WHOLE else (style.label, x.optimizer)
            row = Interval(*names, style, x.contribution, x.ci_low, x.ci_high)
            rows.setdefault(x.arena, []).append(row)
    caption = (
        "Causes: the contribution of each rung of the control ladder to the primary metric on the test split, to the "
        "right where it is better; mean over the seeds with its 95% confidence interval, paired by seed."
    )
    return draw_intervals(rows, "causes", "Causes", "contribution (right is better)", caption)


def draw_shocks(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """How much worse the final metric of each optimizer is with the shocks of each disturbed arena."""
    rows: dict[str, list[Interval]] = {}
    planned = len(analyses.suite.final.seeds)
    drawn = grouped((x.arena, (x, x.lost)) for x in analyses.of(shock_costs) if x.lost is not None)
    for arena, of_arena in drawn.items():
        labels = marked_names({x.optimizer: seeds_mark(planned - x.diverged, planned) for x, _ in of_arena})
        for x, lost in of_arena:
            name = x.optimizer + (f" ({x.diverged} diverged)" if x.diverged else "")
            row = Interval(labels[x.optimizer], name, styles[x.optimizer], lost, x.lost_low, x.lost_high)
            rows.setdefault(arena, []).append(row)
    caption = (
        "Shocks: how much worse the final test metric is than that of the calm twin with the same seed, to the left "
        "where it is worse; mean over the seeds with its 95% confidence interval. †: seeds that did not diverge, where "
        "some did. Arms of which every seed diverged are left out."
    )
    return draw_intervals(rows, "shocks", "Shocks", "lost (right is better)", caption, reverse=True)


PHASE_COLORS = [LIGHT[f"phase-{phase}"] for phase in STEP_PHASES]


def draw_step_time(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """A bar for each optimizer, with a part for each phase."""
    suite, known = analyses.suite, analyses.of(costs)
    arenas = [arena for arena in suite.arenas if any(cost.arena == arena for cost in known)]
    if not arenas:
        return None
    narrow = panel_width() < 4
    left, bottom = width_for(style.label for style in styles.values()), 1.3 if narrow else 0.95
    height = TOP + bottom + 0.15 + 0.33 * len(suite.optimizers)
    figure, by_arena = panels(titles(suite, arenas), height, left, bottom=bottom)
    for arena, panel in by_arena.items():
        panel.axes.set_xlabel("milliseconds per training step")
        panel.columns = "phase", "milliseconds per training step"
        _draw_bars(panel, [cost for cost in known if cost.arena == arena], styles)
        below = -(bottom - 0.05) / (height - TOP - bottom)
        middle = (panel.box.width / 2 - POINTS_PER_INCH * left) / inner_width(panel.axes)
        handles = [Patch(color=color) for color in PHASE_COLORS]
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (middle, below)}
        panel.axes.legend(handles, STEP_PHASES, ncols=2 if narrow else 4, columnspacing=1.2, **place)
    caption = (
        "Step time: median milliseconds of a training step by phase; step is clipping, optimizer and schedule. Forward "
        "and backward are the same work for every optimizer: where they differ, the machine was busy with other work."
    )
    if "AdamW" in suite.optimizers:
        caption += " The factor is that of the whole training step over AdamW's, including that noise."
    return finished(figure, by_arena, "step_time", "Step time", caption)


def _draw_bars(panel: Panel, costs: Sequence[Cost], styles: ArmStyles) -> None:
    """One bar for each optimizer, the first on top."""
    axes, limit = panel.axes, 0.0
    after = moved(axes.transData, axes, 6)
    adamw = next((cost.train_ms for cost in costs if cost.optimizer == "AdamW"), None)
    for row, cost in enumerate(costs):
        arm, widths = styles[cost.optimizer], [getattr(cost, f"{phase}_ms") for phase in STEP_PHASES]
        *lefts, end = accumulate(widths, initial=0.0)
        for phase, left, width, color in zip(STEP_PHASES, lefts, widths, PHASE_COLORS, strict=True):
            bar = Rectangle((left, row - 0.31), width, 0.62, facecolor=color, linewidth=0)
            mark(panel, arm, axes.add_artist(bar))
            text = f"{cost.optimizer}, {phase}: {number(width, 3)} ms"
            panel.points.append(Point(left + width / 2, row, arm.index, (phase, width), text))
        time = number(cost.train_ms, 3) + " ms"
        factor = f", {cost.train_ms / adamw:.2f}×" if adamw and cost.optimizer != "AdamW" else ""
        mark(panel, arm, axes.text(end, row, time + factor, transform=after, va="center"))
        space = (text_width(time + factor) + 8) / inner_width(axes)
        limit = max(limit, end / max(1 - space, 0.2))
        panel.said.append(f"{cost.optimizer}: {time}.")
    name_rows(panel, [(styles[cost.optimizer].label, styles[cost.optimizer]) for cost in costs], size=10)
    axes.set_xlim(0, limit or 1.0)
