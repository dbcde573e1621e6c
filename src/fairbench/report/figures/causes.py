"""The figures of causes: contributions of a control ladder, costs of shocks, and activity of mechanisms."""

from matplotlib.ticker import MaxNLocator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.controls import WHOLE, contributions
from fairbench.analysis.comparison.shocks import shock_costs
from fairbench.analysis.mechanism import quantity_curve
from fairbench.analysis.results import ArmResults
from fairbench.report.figures.canvas import Drawing, finished, over_seeds, panels, titles
from fairbench.report.figures.intervals import Interval, draw_intervals
from fairbench.report.figures.labels import draw_legend, label_ends, label_space, lines_height
from fairbench.report.figures.panel import draw_line
from fairbench.report.figures.style import ArmStyles, marked_names, seeds_mark
from fairbench.report.tables.numbers import percent


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
    drawn = [(x, x.lost) for x in analyses.of(shock_costs) if x.lost is not None]
    planned = len(analyses.suite.final.seeds)
    for arena in dict.fromkeys(x.arena for x, _ in drawn):
        of_arena = [(x, lost) for x, lost in drawn if x.arena == arena]
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


def draw_mechanism(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The share of the pairs of tensor and step in which each mechanism acted, over the training."""
    watched = [(arm, shares) for arm in analyses.results.arms if (shares := acted(arm))]
    curves = [(arm, shares) for arm, shares in watched if any(share for _, share in shares)]
    arenas = list(dict.fromkeys(arm.arena for arm, _ in curves))
    if not arenas:
        return None
    drawn = [style for name, style in styles.items() if name in {arm.optimizer for arm, _ in curves}]
    figure, by_arena = panels(titles(analyses.suite, arenas), lines_height(len(drawn)), **label_space(drawn))
    draw_legend(figure, drawn)
    for arena, panel in by_arena.items():
        panel.axes.set_xlabel("training step")
        panel.axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        panel.axes.set_ylabel("acted, % of tensor steps")
        ends = {}
        for arm, shares in curves:
            if arm.arena == arena:
                steps, values = [step for step, _ in shares], [100 * share for _, share in shares]
                texts = [f"{arm.optimizer}, until step {step}: acted in {percent(share)}" for step, share in shares]
                draw_line(panel, styles[arm.optimizer], steps, values, texts)
                ends[styles[arm.optimizer].end] = styles[arm.optimizer], (steps[-1], values[-1])
                panel.summary.append(f"{arm.optimizer}: at most {percent(max(values) / 100)} in a window of steps.")
        label_ends(panel, ends)
    caption = (
        "When mechanisms acted: the share of the pairs of tensor and step in which an optimizer's own mechanism "
        f"changed something, in each window of logged steps, {over_seeds(analyses.suite)}. A missing line: it never "
        "acted."
    )
    return finished(figure, by_arena, "mechanism", "When mechanisms acted", caption)


def acted(arm: ArmResults) -> list[tuple[int, float]]:
    """By logged step, the share of the pairs of tensor and step in which an arm's mechanism acted."""
    pairs = dict(quantity_curve(arm, "tensor_steps"))
    return [(step, count / pairs[step]) for step, count in quantity_curve(arm, "acted") if pairs.get(step)]
