"""The activity of mechanisms over the training."""

from matplotlib.ticker import MaxNLocator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.mechanism import quantity_curve
from fairbench.analysis.results import ArmResults
from fairbench.common.formatting import percent
from fairbench.report.figures.canvas import finished, titles
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.panel import Panel, draw_line
from fairbench.report.figures.style import ArmStyle, ArmStyles, over_seeds


def draw_mechanism(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of mechanisms: the share of the pairs of tensor and step in which each acted, over the training."""
    curves: list[tuple[ArmResults, list[tuple[int, float]]]] = []
    for arm in analyses.results.arms:
        shares = acted(arm)
        if any(share for _, share in shares):
            curves.append((arm, shares))
    if not curves:
        return None
    arenas = list(dict.fromkeys(arm.arena for arm, _ in curves))
    optimizers = {arm.optimizer for arm, _ in curves}
    drawn = [style for name, style in styles.items() if name in optimizers]
    figure, by_arena = line_panels(titles(analyses.suite, arenas), drawn)
    for panel in by_arena.values():
        panel.axes.set(xlabel="training step", ylabel="acted, % of tensor steps")
        panel.axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    for arm, shares in curves:
        _draw_shares(by_arena[arm.arena], arm.optimizer, styles[arm.optimizer], shares)
    caption = (
        "When mechanisms acted: the share of the pairs of tensor and step in which an optimizer's own mechanism "
        f"changed something, in each window of logged steps, {over_seeds(analyses.suite)}. A missing line: it never "
        "acted."
    )
    return finished(figure, by_arena, "mechanism", "When mechanisms acted", caption)


def _draw_shares(panel: Panel, optimizer: str, style: ArmStyle, shares: list[tuple[int, float]]) -> None:
    """Draw the line of an arm, from its logged steps and shares."""
    steps = []
    percents = []
    texts = []
    for step, share in shares:
        steps.append(step)
        percents.append(100 * share)
        texts.append(f"{optimizer}, until step {step}: acted in {percent(share)}")
    draw_line(panel, style, steps, percents, texts)
    panel.said.append(f"{optimizer}: at most {percent(max(percents) / 100)} in a window of steps.")


def acted(arm: ArmResults) -> list[tuple[int, float]]:
    """The share of the pairs of tensor and step in which an arm's mechanism acted, at each logged step."""
    pairs = dict(quantity_curve(arm, "tensor_steps"))
    shares = []
    for step, count in quantity_curve(arm, "acted"):
        if pairs.get(step):  # otherwise the share is not known
            shares.append((step, count / pairs[step]))
    return shares
