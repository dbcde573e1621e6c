"""The causes of a gain: the contributions of a control ladder, and the cost of shocks."""

from itertools import groupby

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.controls import WHOLE, Contribution, contributions
from fairbench.analysis.comparison.shocks import ShockCost, shock_costs
from fairbench.common.formatting import exact, interval
from fairbench.report.columns import ARM, aligned, integers, intervals, numbers, percents, words
from fairbench.report.document import Output, Section
from fairbench.report.figures.causes import draw_causes, draw_shocks
from fairbench.report.view import TextColumn


def causes(analyses: Analyses) -> str:
    """Sentences on the contribution of each ablation step in each arena; empty without a control ladder.

    They name the contributions whose interval does not contain 0.
    """
    rows = analyses.of(contributions)
    if not rows:
        return ""
    sentences = []
    for arena, arena_rows in groupby(rows, key=lambda row: row.arena):
        sentences.append(_contributions_in(arena, list(arena_rows)))
    ladder = " ".join(analyses.suite.controls)
    return (
        f"{' '.join(sentences)} Differences of neighbors on the control ladder {ladder}, "
        "positive where the later one is better, with 95% intervals that are paired by seed and not corrected. They "
        "show the source of a gain; the verdicts decide whether there is a gain."
    )


def _contributions_in(arena: str, rows: list[Contribution]) -> str:
    """A sentence on the contributions in an arena. The last row is the whole ladder."""
    *ablation_steps, whole = rows
    parts = ", ".join(f"{ablation_step.optimizer} {_size(ablation_step)}" for ablation_step in ablation_steps)
    clear = ", ".join(ablation_step.optimizer for ablation_step in ablation_steps if _is_clear(ablation_step))
    outside = ""
    if clear:
        outside = f"; 0 lies outside the interval of {clear}"
    return f"{arena}: {parts}; the whole {_size(whole)}{outside}."


def _is_clear(row: Contribution) -> bool:
    """Whether 0 lies outside the interval of a contribution."""
    if not row.ci_low or not row.ci_high:
        return False
    return row.ci_low * row.ci_high > 0


def _size(row: Contribution) -> str:
    """A contribution with its interval, or why it has no value or no interval."""
    if row.contribution is None:
        return f"unknown ({row.note})"
    size = interval(row.contribution, row.ci_low, row.ci_high)
    if row.ci_low is None:
        return f"{size} ({row.note})"
    return size


def _ablation_step(row: Contribution) -> str:
    """The name of an ablation step: the optimizers before and after it."""
    ablation_step = f"{row.before} → {row.optimizer}"
    if row.part == WHOLE:
        ablation_step += " (the whole)"
    return ablation_step


CONTRIBUTION_COLUMNS = (
    words("Arena", "arena"),
    TextColumn("Ablation step", _ablation_step),
    words("Metric", "metric"),
    intervals("Contribution", "contribution"),
    integers("Seeds", "n"),
    words("Note", "note"),
)

CONTRIBUTIONS_TABLE = Output[Analyses](
    name="causes",
    title="Contributions",
    rows=lambda analyses: analyses.of(contributions),
    columns=CONTRIBUTION_COLUMNS,
    caption=(
        "The contribution of each ablation step to the primary metric, positive where it is better; "
        "mean over the seeds and its 95% confidence interval, paired by seed, not corrected. "
        "The ablation steps of an arena "
        "sum to the whole."
    ),
    kind=Contribution,
    figure=draw_causes,
    finding=("Causes", causes),
)

SHOCK_COLUMNS = (
    *ARM,
    integers("Seeds", "n"),
    integers("Diverged", "diverged"),
    aligned("Excess loss, sum", "excess"),
    numbers("Steps to recover", "recovery", form=exact),
    percents("Shocks overcome", "recovered"),
    intervals("Lost", "lost", "lost_low", "lost_high"),
    words("Note", "note"),
)

SHOCKS_TABLE = Output[Analyses](
    name="shocks",
    title="Cost of the shocks",
    rows=lambda analyses: analyses.of(shock_costs),
    columns=SHOCK_COLUMNS,
    caption=(
        "The cost of the shocks of a disturbed arena, each seed against the undisturbed one: the excess of the "
        "training loss, summed over the steps; steps until it is within 5% again, median; how much worse the final "
        "test metric is, with a 95% confidence interval, paired by seed, that is not corrected."
    ),
    kind=ShockCost,
    figure=draw_shocks,
)

CAUSES = Section[Analyses](
    name="causes",
    title="Causes",
    outputs=(CONTRIBUTIONS_TABLE, SHOCKS_TABLE),
)
