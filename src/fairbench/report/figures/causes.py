"""The contributions of a control ladder and the cost of shocks, with their intervals."""

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.controls import WHOLE, Contribution, contributions
from fairbench.analysis.comparison.shocks import ShockCost, shock_costs
from fairbench.common.grouping import grouped
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.intervals import Interval, draw_intervals
from fairbench.report.figures.style import ArmStyle, ArmStyles, marked_names, seeds_mark


def draw_causes(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of the control ladder: the contribution of each ablation step in each arena."""
    rows: dict[str, list[Interval]] = {}
    for contribution in analyses.of(contributions):
        if contribution.contribution is None:
            continue
        row = _contribution_row(contribution, contribution.contribution, styles[contribution.optimizer])
        rows.setdefault(contribution.arena, []).append(row)
    caption = (
        "Causes: the contribution of each ablation step to the primary metric on the test split, to the "
        "right where it is better; mean over the seeds with its 95% confidence interval, paired by seed."
    )
    return draw_intervals(
        rows,
        name="causes",
        title="Causes",
        axis="contribution (right is better)",
        caption=caption,
    )


def _contribution_row(contribution: Contribution, value: float, style: ArmStyle) -> Interval:
    """The row of a contribution, whose value is known."""
    label = style.label
    name = contribution.optimizer
    if contribution.part == WHOLE:
        label = "the whole"
        name = "the whole"
    return Interval(label, name, style, value=value, low=contribution.ci_low, high=contribution.ci_high)


def draw_shocks(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of the shocks: how much worse the final metric of each optimizer is in each disturbed arena."""
    known = [cost for cost in analyses.of(shock_costs) if cost.lost is not None]
    planned = len(analyses.suite.final.seeds)
    rows = {}
    for arena, arena_costs in grouped((cost.arena, cost) for cost in known).items():
        marks = {cost.optimizer: seeds_mark(planned - cost.diverged, planned) for cost in arena_costs}
        labels = marked_names(marks)
        rows[arena] = [_shock_row(cost, labels[cost.optimizer], styles[cost.optimizer]) for cost in arena_costs]
    caption = (
        "Shocks: how much worse the final test metric is than that of the undisturbed arena with the same seed, "
        "to the left where it is worse; mean over the seeds with its 95% confidence interval. "
        "†: seeds that did not diverge, where some did. Arms of which every seed diverged are left out."
    )
    return draw_intervals(
        rows,
        name="shocks",
        title="Shocks",
        axis="lost (right is better)",
        caption=caption,
        reverse=True,
    )


def _shock_row(cost: ShockCost, label: str, style: ArmStyle) -> Interval:
    """The row of the cost of a shock, which is known."""
    assert cost.lost is not None
    name = cost.optimizer
    if cost.diverged:
        name += f" ({cost.diverged} diverged)"
    return Interval(label, name, style, value=cost.lost, low=cost.lost_low, high=cost.lost_high)
