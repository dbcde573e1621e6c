"""Speed-ups: the reference's curve over horizons with the distance from each arm to it, and their trends over size."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.size_trends import SizeTrend, size_trends
from fairbench.analysis.comparison.speedups import Speedup, curve_arenas, speedups
from fairbench.analysis.results import ArmResults
from fairbench.common.formatting import NONE, number
from fairbench.common.grouping import grouped
from fairbench.report.figures.canvas import Drawing, finished, over_seeds
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.panel import Panel, draw_line, draw_values, log_axis, mark
from fairbench.report.figures.style import ArmStyle, ArmStyles

POINTS = 9
"""The points of a line over size, which is straight on two logarithmic axes."""


def speedup_text(row: Speedup) -> str:
    """A speed-up with its interval, such as "1.38 [1.21, ≥ 2.00]"; an end beyond the horizons is a bound."""
    if row.n == 0:
        return NONE
    bounds = {"at least": f"≥ {row.longest:.2f}", "at most": f"≤ {row.shortest:.2f}"}
    middle = bounds[row.beyond] if row.speedup is None else f"{row.speedup:.2f}"
    low = bounds["at most"] if row.ci_low is None else f"{row.ci_low:.2f}"
    high = bounds["at least"] if row.ci_high is None else f"{row.ci_high:.2f}"
    return f"{middle} [{low}, {high}]"


def draw_speedup(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """A panel for each curve of the reference, with the arms that are compared with it."""
    suite, results = analyses.suite, analyses.results
    curves = grouped((tuple(curve_arenas(suite, row.arena)), row) for row in analyses.of(speedups))
    titles = {}
    for arenas in curves:
        cell = suite.arenas[arenas[0]].ladder_point
        declared = next(x for x in arenas if not suite.arenas[x].curve_only)
        name = f"{cell.family}-{cell.size}" if cell and cell.size else declared
        titles[name] = f"{name}: {suite.facts(arenas[0]).title}"
    if not curves:
        return None
    figure, by_curve = line_panels(titles, styles.values())
    for panel, (arenas, rows) in zip(by_curve.values(), curves.items(), strict=True):
        metric = suite.arenas[arenas[0]].metric
        panel.best = "high" if suite.direction(arenas[0]) == "max" else "low"
        label = f"test {metric} at the end ({suite.better(arenas[0])})"
        panel.axes.set(xlabel="training steps of a run", ylabel=label)
        for name in dict.fromkeys([suite.reference, *(row.optimizer for row in rows)]):
            arms = [results.arm(x, name) for x in arenas if name in suite.optimizers_of(x)]
            _draw_arm(panel, analyses, arms, styles[name])
        for row in rows:
            _draw_distance(panel, analyses, row, styles[row.optimizer])
        log_axis(panel.axes, [suite.arenas[x].steps for x in arenas])
    caption = (
        f"Speed-up over {suite.reference}: final test metric by the steps of the training, {over_seeds(suite)}; each "
        "point is a training of its own, with its own schedule and search. An arrow leads from an arm to the steps "
        f"with which {suite.reference} is as good, as far as it was trained; a band is the 95% confidence interval."
    )
    return finished(figure, by_curve, "speedup", f"Speed-up over {suite.reference}", caption)


def _draw_arm(panel: Panel, analyses: Analyses, arms: Sequence[ArmResults], style: ArmStyle) -> None:
    """Draw the mean of each arm over its steps."""
    plans = analyses.suite.arenas
    scored = [(plans[arm.arena].steps, scores) for arm in arms if (scores := arm.scores(plans[arm.arena].metric))]
    if not scored:
        return
    steps, means = [steps for steps, _ in scored], [fmean(scores) for _, scores in scored]
    name = arms[0].optimizer
    texts = [f"{name}, {at} steps: {number(mean)}" for at, mean in zip(steps, means, strict=True)]
    draw = draw_line if len(steps) > 1 else draw_values
    draw(panel, style, steps, means, texts)
    panel.ends[style.end] = style, (steps[-1], means[-1])


def _draw_distance(panel: Panel, analyses: Analyses, row: Speedup, style: ArmStyle) -> None:
    """Draw an arrow from an arm to the reference's curve, or to its end, and the interval."""
    scores = analyses.results.arm(row.arena, row.optimizer).scores(row.metric)
    if row.n == 0 or not scores:
        return
    height, reached = fmean(scores), row.steps * row.reached
    arrow = {"arrowstyle": "->", "color": style.color, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    mark(panel, style, panel.axes.annotate("", (reached, height), (row.steps, height), arrowprops=arrow))
    interval = [row.steps * (row.ci_low or row.shortest), row.steps * (row.ci_high or row.longest)]
    wide: dict[str, Any] = {"color": style.color, "linewidth": 5, "alpha": 0.35, "solid_capstyle": "butt"}
    mark(panel, style, *panel.axes.plot(interval, [height, height], **wide))
    panel.said.append(f"{row.optimizer}, {row.steps} steps: speed-up {speedup_text(row)}.")
    panel.ends[style.end] = style, (max(reached, row.steps), height)


def draw_size_trends(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """A panel for each ladder whose law is known, with a line for each optimizer."""
    suite = analyses.suite
    trends = grouped((row.arena, row) for row in analyses.of(size_trends) if row.speedup is not None)
    if not trends:
        return None
    titles = {name: f"{name}: {suite.facts(suite.ladders[name][0]).title}" for name in trends}
    figure, by_ladder = line_panels(titles, styles.values())
    for name, panel in by_ladder.items():
        sizes = {x: plan.ladder_point.parameters for x in suite.ladders[name] if (plan := suite.arenas[x]).ladder_point}
        panel.axes.set(xlabel="parameters", ylabel=f"speed-up over {styles[suite.reference].label}")
        panel.axes.axhline(1, color=LIGHT["edge"], linewidth=1)
        for row in trends[name]:
            _draw_trend(panel, row, sizes, styles[row.optimizer])
        for single in analyses.of(speedups):
            if single.arena in sizes and single.speedup is not None:
                size, style = sizes[single.arena], styles[single.optimizer]
                text = f"{single.optimizer}, {size} parameters, {single.steps} steps: {number(single.speedup, 3)}"
                draw_values(panel, style, [size], [single.speedup], [text])
        log_axis(panel.axes, [*sizes.values()])
    caption = (
        f"Speed-up over {suite.reference} by the size of the model. Lines: by the law of all sizes, horizons and "
        "optimizers together. Points: of single sizes and horizons, where they lie within the horizons of "
        f"{suite.reference}."
    )
    return finished(figure, by_ladder, "size_trends", "Speed-up over size", caption)


def _draw_trend(panel: Panel, row: SizeTrend, sizes: dict[str, int], style: ArmStyle) -> None:
    """Draw the line of an optimizer."""
    assert row.smallest is not None
    assert row.largest is not None
    at = np.geomspace(min(sizes.values()), max(sizes.values()), POINTS).tolist()
    values = np.geomspace(row.smallest, row.largest, POINTS).tolist()
    texts = [
        f"{row.optimizer}, {size:.0f} parameters: {number(value, 3)}" for size, value in zip(at, values, strict=True)
    ]
    draw_line(panel, style, at, values, texts, markersize=0)
    panel.said.append(f"{row.optimizer}: {number(row.smallest, 3)} to {number(row.largest, 3)}; {row.verdict}.")
