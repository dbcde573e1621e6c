"""How a speed-up comes about: the reference's curve over horizons, and the distance from each arm to it."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.speedups import Speedup, curve_arenas, speedups
from fairbench.analysis.results import ArmResults
from fairbench.report.figures.canvas import Drawing, finished, over_seeds, panels
from fairbench.report.figures.labels import draw_legend, label_ends, label_space, lines_height
from fairbench.report.figures.panel import Panel, draw_line, draw_values, log_axis, mark
from fairbench.report.figures.style import ArmStyle, ArmStyles
from fairbench.report.tables.numbers import measured
from fairbench.report.tables.speedup import speedup_text


def draw_speedup(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """A panel for each curve of the reference, with the arms that are compared with it."""
    suite, results = analyses.suite, analyses.results
    curves: dict[tuple[str, ...], list[Speedup]] = {}
    for row in analyses.of(speedups):
        curves.setdefault(tuple(curve_arenas(suite, row.arena)), []).append(row)
    titles = {}
    for arenas in curves:
        cell = suite.arenas[arenas[0]].cell
        declared = next(x for x in arenas if not suite.arenas[x].curve_only)
        name = f"{cell.family}-{cell.size}" if cell and cell.size else declared
        titles[name] = f"{name}: {suite.facts(arenas[0]).title}"
    if not curves:
        return None
    figure, by_curve = panels(titles, lines_height(len(styles)), **label_space(styles.values()))
    draw_legend(figure, styles.values())
    for panel, (arenas, rows) in zip(by_curve.values(), curves.items(), strict=True):
        metric = suite.arenas[arenas[0]].metric
        panel.best = "high" if suite.direction(arenas[0]) == "max" else "low"
        panel.axes.set_xlabel("training steps of a run")
        panel.axes.set_ylabel(f"test {metric} at the end ({suite.better(arenas[0])})")
        ends = {}
        for name in dict.fromkeys([suite.reference, *(row.optimizer for row in rows)]):
            arms = [results.arm(x, name) for x in arenas if name in suite.optimizers_of(x)]
            if end := _draw_arm(panel, analyses, arms, styles[name]):
                ends[styles[name].end] = styles[name], end
        for row in rows:
            style = styles[row.optimizer]
            if end := _draw_distance(panel, analyses, row, style):
                ends[style.end] = style, end
        log_axis(panel.axes, [suite.arenas[x].steps for x in arenas])
        label_ends(panel, ends)
    caption = (
        f"Speed-up over {suite.reference}: final test metric by the steps of the training, {over_seeds(suite)}; each "
        "point is a training of its own, with its own schedule and search. An arrow leads from an arm to the steps "
        f"with which {suite.reference} is as good, as far as it was trained; a band is the 95% confidence interval."
    )
    return finished(figure, by_curve, "speedup", f"Speed-up over {suite.reference}", caption)


def _draw_arm(
    panel: Panel, analyses: Analyses, arms: Sequence[ArmResults], style: ArmStyle
) -> tuple[float, float] | None:
    """Draw the mean of each arm over its steps; returns the last point."""
    plans = analyses.suite.arenas
    scored = [(plans[arm.arena].steps, scores) for arm in arms if (scores := arm.scores(plans[arm.arena].metric))]
    if not scored:
        return None
    steps, means = [steps for steps, _ in scored], [fmean(scores) for _, scores in scored]
    name = arms[0].optimizer
    texts = [f"{name}, {at} steps: {measured(mean, None)}" for at, mean in zip(steps, means, strict=True)]
    draw = draw_line if len(steps) > 1 else draw_values
    draw(panel, style, steps, means, texts)
    return steps[-1], means[-1]


def _draw_distance(panel: Panel, analyses: Analyses, row: Speedup, style: ArmStyle) -> tuple[float, float] | None:
    """Draw an arrow from an arm to the reference's curve, or to its end, and the interval; returns the arrow's head."""
    scores = analyses.results.arm(row.arena, row.optimizer).scores(row.metric)
    if row.n == 0 or not scores:
        return None
    height, reached = fmean(scores), row.steps * row.reached
    arrow = {"arrowstyle": "->", "color": style.color, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    mark(panel, style, panel.axes.annotate("", (reached, height), (row.steps, height), arrowprops=arrow))
    interval = [row.steps * (row.ci_low or row.shortest), row.steps * (row.ci_high or row.longest)]
    wide: dict[str, Any] = {"color": style.color, "linewidth": 5, "alpha": 0.35, "solid_capstyle": "butt"}
    mark(panel, style, *panel.axes.plot(interval, [height, height], **wide))
    panel.summary.append(f"{row.optimizer}, {row.steps} steps: speed-up {speedup_text(row)}.")
    return max(reached, row.steps), height
