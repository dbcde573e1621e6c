"""Speed-ups: the reference's curve over horizons, with the distance from each arm to it."""

from collections.abc import Sequence
from statistics import fmean

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.speedups import Speedup, curve_arenas, speedups
from fairbench.analysis.results import ArmResults
from fairbench.common.formatting import NONE, number
from fairbench.common.grouping import grouped
from fairbench.report.figures.canvas import finished
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.panel import Panel, draw_line, draw_values, log_axis, mark
from fairbench.report.figures.style import ArmStyle, ArmStyles, over_seeds
from fairbench.suites.schema import Suite


def speedup_text(row: Speedup) -> str:
    """A speed-up with its interval, such as "1.38 [1.21, ≥ 2.00]". An end beyond the horizons is shown as a bound."""
    if row.n == 0:
        return NONE  # no seed has a speed-up
    at_least = f"≥ {row.longest:.2f}"
    at_most = f"≤ {row.shortest:.2f}"
    if row.speedup is not None:
        middle = f"{row.speedup:.2f}"
    elif row.beyond == "at least":
        middle = at_least
    else:
        middle = at_most
    low = at_most if row.ci_low is None else f"{row.ci_low:.2f}"
    high = at_least if row.ci_high is None else f"{row.ci_high:.2f}"
    return f"{middle} [{low}, {high}]"


def draw_speedup(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of speed-ups: a panel for each curve of the reference, with the arms that are compared with it."""
    suite = analyses.suite
    curves = grouped((tuple(curve_arenas(suite, row.arena)), row) for row in analyses.of(speedups))
    if not curves:
        return None
    titles = {}
    for arenas in curves:
        name = _curve_name(suite, arenas)
        titles[name] = f"{name}: {suite.facts(arenas[0]).title}"
    figure, by_curve = line_panels(titles, styles.values())
    for panel, (arenas, rows) in zip(by_curve.values(), curves.items(), strict=True):
        _draw_panel(panel, analyses, styles, arenas, rows)
    caption = (
        f"Speed-up over {suite.reference}: final test metric by the steps of the training, {over_seeds(suite)}; each "
        "point is a training of its own, with its own schedule and search. An arrow leads from an arm to the steps "
        f"with which {suite.reference} is as good, as far as it was trained; a band is the 95% confidence interval."
    )
    return finished(figure, by_curve, "speedup", f"Speed-up over {suite.reference}", caption)


def _curve_name(suite: Suite, arenas: Sequence[str]) -> str:
    """The name of a curve of the reference: the family and size of a ladder, or else the arena that is declared."""
    point = suite.arenas[arenas[0]].ladder_point
    if point and point.size:
        return f"{point.family}-{point.size}"
    return next(arena for arena in arenas if not suite.arenas[arena].curve_only)


def _draw_panel(
    panel: Panel, analyses: Analyses, styles: ArmStyles, arenas: Sequence[str], rows: Sequence[Speedup]
) -> None:
    """Draw a curve of the reference, with a point in each of the arenas, and the arms that are compared with it."""
    suite = analyses.suite
    first = arenas[0]
    panel.best = "high" if suite.direction(first) == "max" else "low"
    label = f"test {suite.arenas[first].metric} at the end ({suite.better(first)})"
    panel.axes.set(xlabel="training steps of a run", ylabel=label)
    optimizers = dict.fromkeys([suite.reference, *(row.optimizer for row in rows)])
    for optimizer in optimizers:
        arms = [analyses.results.arm(arena, optimizer) for arena in arenas if optimizer in suite.optimizers_of(arena)]
        _draw_arms(panel, suite, arms, styles[optimizer])
    for row in rows:
        _draw_distance(panel, analyses, row, styles[row.optimizer])
    log_axis(panel.axes, [suite.arenas[arena].steps for arena in arenas])


def _draw_arms(panel: Panel, suite: Suite, arms: Sequence[ArmResults], style: ArmStyle) -> None:
    """Draw the mean of each arm of one optimizer over the steps of its arena."""
    steps = []
    means = []
    texts = []
    for arm in arms:
        plan = suite.arenas[arm.arena]
        scores = arm.scores(plan.metric)
        if scores:
            mean = fmean(scores)
            steps.append(plan.steps)
            means.append(mean)
            texts.append(f"{arm.optimizer}, {plan.steps} steps: {number(mean)}")
    if not steps:
        return  # no arm has a value
    if len(steps) > 1:
        draw_line(panel, style, steps, means, texts)
    else:
        draw_values(panel, style, steps, means, texts)
    panel.ends[style.end] = style, (steps[-1], means[-1])


def _draw_distance(panel: Panel, analyses: Analyses, row: Speedup, style: ArmStyle) -> None:
    """Draw an arrow from an arm to the curve of the reference, or to the curve's end, and a band for the interval."""
    scores = analyses.results.arm(row.arena, row.optimizer).scores(row.metric)
    if row.n == 0 or not scores:
        return
    height = fmean(scores)
    reached = row.steps * row.reached
    arrow = panel.axes.annotate(
        "",
        xy=(reached, height),
        xytext=(row.steps, height),
        arrowprops={"arrowstyle": "->", "color": style.color, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0},
    )
    mark(panel, style, arrow)
    low = row.steps * (row.ci_low or row.shortest)
    high = row.steps * (row.ci_high or row.longest)
    band = panel.axes.plot(
        [low, high],
        [height, height],
        color=style.color,
        linewidth=5,
        alpha=0.35,
        solid_capstyle="butt",
    )
    mark(panel, style, *band)
    panel.said.append(f"{row.optimizer}, {row.steps} steps: speed-up {speedup_text(row)}.")
    panel.ends[style.end] = style, (max(reached, row.steps), height)
