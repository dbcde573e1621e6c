"""Lines over the training: learning curves, training loss, and the activity of mechanisms."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from matplotlib.ticker import MaxNLocator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.curves import Curve, curves, mean_curve
from fairbench.analysis.mechanism import quantity_curve
from fairbench.analysis.results import ArmResults
from fairbench.common.formatting import mean_and_deviation, percent
from fairbench.report.figures.canvas import Drawing, finished, over_seeds, titles
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.panel import MOST_LABELS, draw_band, draw_line
from fairbench.report.figures.style import ArmStyles, Best, arm_labels, axis_label, no_line, reference_first

MOST_POINTS = 20
"""The most values of a line of the training loss, which is recorded more often than can be seen."""


def draw_learning_curves(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The primary metric of every arm over the training."""
    suite = analyses.suite
    axes = {arena: axis_label(suite, arena) for arena in suite.arenas}
    about = f"Learning curves: {over_seeds(suite)}, {suite.selection_name} split"
    return _draw(analyses, styles, analyses.of(curves), axes, "learning_curves", "Learning curves", about)


def draw_training_loss(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The training loss of every arm, each value the mean of a window of steps."""
    means = {
        (arm.arena, arm.optimizer): mean_curve([_thinned([*x.loss_curve.items()]) for x in arm.final if x.result])
        for arm in analyses.results.arms
    }
    label: tuple[str, Best] = "training loss (lower is better)", "low"
    axes = dict.fromkeys(analyses.suite.arenas, label)
    averaged = over_seeds(analyses.suite)
    about = f"Training loss: {averaged}, each value the mean of the window of steps that ends there"
    return _draw(analyses, styles, means, axes, "training_loss", "Training loss", about)


def _thinned(curve: Sequence[tuple[int, float]]) -> dict[int, float]:
    """At most `MOST_POINTS` values at about the same distances, the last one among them."""
    every = -(-len(curve) // MOST_POINTS) or 1
    return dict(curve[-1::-every][::-1])


def _draw(
    analyses: Analyses,
    styles: ArmStyles,
    means: Mapping[tuple[str, str], Curve],
    axes: Mapping[str, tuple[str, Best]],
    name: str,
    title: str,
    about: str,
) -> Drawing | None:
    """A panel for each arena with a line for each arm, the label of its y axis, and which values are better."""
    suite, results = analyses.suite, analyses.results
    arenas = [arena for arena in suite.compared_arenas if any(means[arena, name] for name in suite.optimizers)]
    if not arenas:
        return None
    labels = {arena: arm_labels(results.of(arena)) for arena in arenas}
    every = [label for of_arena in labels.values() for label in of_arena.values()]
    figure, by_arena = line_panels(titles(suite, arenas), styles.values(), every)
    for arena, panel in by_arena.items():
        arms = reference_first(results, arena)
        drawn = [(arm, curve) for arm in arms if (curve := means[arena, arm.optimizer])]
        label, panel.best = axes[arena]
        panel.axes.set(xlabel="training step" + no_line(arms, [arm for arm, _ in drawn]), ylabel=label)
        panel.axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        for arm, curve in drawn:
            style = replace(styles[arm.optimizer], end=labels[arena][arm.optimizer])
            steps, mean, std = zip(*curve, strict=True)
            texts = [f"{arm.optimizer}, step {step}: {mean_and_deviation(m, s)}" for step, m, s in curve]
            draw_line(panel, style, steps, mean, texts)
            if len(drawn) <= MOST_LABELS or style.wide:
                low, high = ([m + sign * (s or 0.0) for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
                draw_band(panel, style, steps, low, high)
            panel.said.append(f"{texts[-1]}.")
    whose = "its" if len(suite.optimizers) <= MOST_LABELS else f"{suite.reference}’s"
    deviation = f", with {whose} standard deviation" if len(suite.final.seeds) > 1 else ""
    caption = (
        f"{about}{deviation}. The wide line is {suite.reference}. A line ends where the first of its seeds diverged. "
        "†: seeds that finished, where not all did."
    )
    return finished(figure, by_arena, name, title, caption)


def draw_mechanism(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The share of the pairs of tensor and step in which each mechanism acted, over the training."""
    watched = [(arm, shares) for arm in analyses.results.arms if (shares := acted(arm))]
    curves = [(arm, shares) for arm, shares in watched if any(share for _, share in shares)]
    arenas = list(dict.fromkeys(arm.arena for arm, _ in curves))
    if not arenas:
        return None
    drawn = [style for name, style in styles.items() if name in {arm.optimizer for arm, _ in curves}]
    figure, by_arena = line_panels(titles(analyses.suite, arenas), drawn)
    for arena, panel in by_arena.items():
        panel.axes.set(xlabel="training step", ylabel="acted, % of tensor steps")
        panel.axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        for arm, shares in curves:
            if arm.arena == arena:
                steps, values = [step for step, _ in shares], [100 * share for _, share in shares]
                texts = [f"{arm.optimizer}, until step {step}: acted in {percent(share)}" for step, share in shares]
                draw_line(panel, styles[arm.optimizer], steps, values, texts)
                panel.said.append(f"{arm.optimizer}: at most {percent(max(values) / 100)} in a window of steps.")
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
