"""Lines over the training: learning curves and training loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.ticker import MaxNLocator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.curves import Curve, curves, mean_curve
from fairbench.common.formatting import mean_and_deviation
from fairbench.report.figures.canvas import finished, titles
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.panel import Panel, draw_band, draw_line
from fairbench.report.figures.style import (
    ArmStyle,
    ArmStyles,
    Best,
    arm_labels,
    axis_label,
    no_line,
    over_seeds,
    reference_first,
    step_label,
)

MOST_BANDS = 2
"""The most lines with bands: the colors of more bands would mix."""
MOST_POINTS = 20
"""The most values of a line of the training loss, which is recorded more often than can be seen."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The content of a figure of lines over the training.

    Attributes:
        means: the curve of each arm, by arena and optimizer.
        axes: the label of the y axis of each arena, and which of its values are better.
        about: the beginning of the caption.
    """

    name: str
    title: str
    means: Mapping[tuple[str, str], Curve]
    axes: Mapping[str, tuple[str, Best]]
    about: str


def draw_learning_curves(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of the learning curves: the primary metric of every arm over the training."""
    suite = analyses.suite
    lines = Lines(
        name="learning_curves",
        title="Learning curves",
        means=analyses.of(curves),
        axes={arena: axis_label(suite, arena) for arena in suite.arenas},
        about=f"Learning curves: {over_seeds(suite)}, {suite.selection_name} split",
    )
    return _draw(analyses, styles, lines)


def draw_training_loss(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of the training loss of every arm. Each value is the mean of a window of steps."""
    means = {}
    for arm in analyses.results.arms:
        seed_curves = [_thinned([*run.loss_curve.items()]) for run in arm.final if run.result]
        means[arm.arena, arm.optimizer] = mean_curve(seed_curves)
    label: tuple[str, Best] = ("training loss (lower is better)", "low")
    averaged = over_seeds(analyses.suite)
    lines = Lines(
        name="training_loss",
        title="Training loss",
        means=means,
        axes=dict.fromkeys(analyses.suite.arenas, label),
        about=f"Training loss: {averaged}, each value the mean of the window of steps that ends there",
    )
    return _draw(analyses, styles, lines)


def _thinned(curve: Sequence[tuple[int, float]]) -> dict[int, float]:
    """At most `MOST_POINTS` values of a curve at equal distances. The last value is always one of them."""
    distance = max(-(-len(curve) // MOST_POINTS), 1)  # the division is rounded up
    from_last = curve[-1::-distance]
    return dict(from_last[::-1])


def _draw(analyses: Analyses, styles: ArmStyles, lines: Lines) -> Drawing | None:
    """Draw a panel for each arena with a line for each arm; None without any line."""
    suite = analyses.suite
    arenas = []
    for arena in suite.compared_arenas:
        if any(lines.means[arena, optimizer] for optimizer in suite.optimizers):
            arenas.append(arena)
    if not arenas:
        return None
    labels = {arena: arm_labels(analyses.results.of(arena)) for arena in arenas}
    every_label: list[str] = []
    for arena_labels in labels.values():
        every_label += arena_labels.values()
    figure, by_arena = line_panels(titles(suite, arenas), styles.values(), every_label)
    for arena, panel in by_arena.items():
        _draw_panel(panel, analyses, styles, lines, labels[arena])
    return finished(figure, by_arena, lines.name, lines.title, _caption(analyses, lines.about))


def _draw_panel(panel: Panel, analyses: Analyses, styles: ArmStyles, lines: Lines, labels: Mapping[str, str]) -> None:
    """Draw the lines of an arena. The line of the reference is drawn first, so that others are above it."""
    arena = panel.arena
    arms = reference_first(analyses.results, arena)
    drawn = [arm for arm in arms if lines.means[arena, arm.optimizer]]
    label, panel.best = lines.axes[arena]
    panel.axes.set(xlabel=f"{step_label(analyses.suite)}{no_line(arms, drawn)}", ylabel=label)
    panel.axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    for arm in drawn:
        style = replace(styles[arm.optimizer], end=labels[arm.optimizer])
        has_band = len(drawn) <= MOST_BANDS
        _draw_curve(panel, arm.optimizer, style, lines.means[arena, arm.optimizer], has_band=has_band)


def _draw_curve(panel: Panel, optimizer: str, style: ArmStyle, curve: Curve, has_band: bool) -> None:
    """Draw the line of an arm, and if `has_band` its standard deviation as a band."""
    steps = []
    means = []
    lows = []
    highs = []
    texts = []
    for step, mean, std in curve:
        deviation = std or 0.0
        steps.append(step)
        means.append(mean)
        lows.append(mean - deviation)
        highs.append(mean + deviation)
        texts.append(f"{optimizer}, step {step}: {mean_and_deviation(mean, std)}")
    draw_line(panel, style, steps, means, texts)
    if has_band:
        draw_band(panel, style, steps, lows, highs)
    panel.said.append(f"{texts[-1]}.")


def _caption(analyses: Analyses, about: str) -> str:
    """The caption of a figure of lines, which begins with `about`."""
    suite = analyses.suite
    deviation = ""
    if len(suite.final.seeds) > 1 and len(suite.optimizers) <= MOST_BANDS:
        deviation = ", with its standard deviation"
    return (
        f"{about}{deviation}. The wide line is {suite.reference}. A line ends where the first of its seeds diverged. "
        "†: seeds that finished, where not all did."
    )
