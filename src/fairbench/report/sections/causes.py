"""The causes of a gain: the contributions of a control ladder, the cost of shocks, and what mechanisms did."""

from itertools import groupby

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.controls import WHOLE, Contribution, contributions
from fairbench.analysis.comparison.shocks import ShockCost, shock_costs
from fairbench.analysis.mechanism import Quantity, mechanisms, quantities
from fairbench.common.formatting import SHOWN, exact, interval, plural
from fairbench.report.document import Output, Section
from fairbench.report.figures.learning_curves import draw_mechanism
from fairbench.report.figures.rows import draw_causes, draw_shocks
from fairbench.report.view import ARM, Column, aligned, integers, intervals, numbers, page_only, percents, words


def causes(analyses: Analyses) -> str:
    """The contribution of each rung in each arena, and the intervals without 0; empty without a control ladder."""
    if not analyses.of(contributions):
        return ""
    sentences = []
    for arena, of_arena in groupby(analyses.of(contributions), lambda x: x.arena):
        *rungs, whole = of_arena
        parts = ", ".join(f"{row.optimizer} {_size(row)}" for row in rungs)
        clear = [row.optimizer for row in rungs if row.ci_low and row.ci_high and row.ci_low * row.ci_high > 0]
        outside = f"; 0 lies outside the interval of {', '.join(clear)}" if clear else ""
        sentences.append(f"{arena}: {parts}; the whole {_size(whole)}{outside}.")
    return (
        f"{' '.join(sentences)} Differences of neighbors on the control ladder {' '.join(analyses.suite.controls)}, "
        "positive where the later one is better, with 95% intervals that are paired by seed and not corrected. They "
        "show the source of a gain; the verdicts decide whether there is a gain."
    )


def _size(row: Contribution) -> str:
    if row.contribution is None:
        return f"unknown ({row.note})"
    size = interval(row.contribution, row.ci_low, row.ci_high)
    return f"{size} ({row.note})" if row.ci_low is None else size


CAUSES = Section[Analyses](
    "causes",
    "Causes",
    (
        Output(
            "causes",
            "Contributions",
            lambda a: a.of(contributions),
            (
                words("Arena", "arena"),
                Column("Rung", lambda c: f"{c.before} → {c.optimizer}" + (" (the whole)" if c.part == WHOLE else "")),
                words("Metric", "metric"),
                intervals("Contribution", "contribution"),
                integers("Seeds", "n"),
                words("Note", "note"),
            ),
            "The contribution of each rung of the control ladder to the primary metric, positive where it is better; "
            "mean over the seeds and its 95% confidence interval, paired by seed, not corrected. The rungs of an arena "
            "sum to the whole.",
            kind=Contribution,
            figure=draw_causes,
            finding=("Causes", causes),
        ),
        Output(
            "shocks",
            "Cost of the shocks",
            lambda a: a.of(shock_costs),
            (
                *ARM,
                integers("Seeds", "n"),
                integers("Diverged", "diverged"),
                aligned("Excess loss, sum", "excess"),
                numbers("Steps to recover", "recovery", exact),
                percents("Shocks overcome", "recovered"),
                intervals("Lost", "lost", "lost_low", "lost_high"),
                words("Note", "note"),
            ),
            "The cost of the shocks of a disturbed arena, each seed against its undisturbed twin: the excess of the "
            "training loss, summed over the steps; steps until it is within 5% again, median; how much worse the final "
            "test metric is, with a 95% confidence interval, paired by seed, that is not corrected.",
            kind=ShockCost,
            figure=draw_shocks,
        ),
    ),
)


def _acted(analyses: Analyses) -> str:
    """The effects of the first few mechanisms that acted, the reference's first; the audit names the inactive ones."""
    found = sorted(analyses.of(mechanisms), key=lambda m: m.optimizer != analyses.suite.reference)
    sentences = [f"{m.arena}, {m.optimizer}: {m.state}." for m in found if m.acted != 0][:SHOWN]
    if rest := len(found) - len(sentences):
        sentences.append(f"{plural(rest, 'other arm')} {'has' if rest == 1 else 'have'} one: see mechanism.csv.")
    return " ".join(sentences)


MECHANISM = Section[Analyses](
    "mechanism",
    "Did the mechanism act?",
    (
        Output(
            "mechanism",
            "In words",
            lambda a: a.of(mechanisms),
            (*ARM, integers("Seeds", "n"), words("In words", "state")),
            "The effect of the optimizers’ mechanisms in the final trials. A tensor step is one tensor in one step.",
            figure=draw_mechanism,
            finding=("Mechanism", _acted),
        ),
        Output(
            "quantities",
            "In numbers",
            lambda a: a.of(quantities),
            (
                *ARM,
                words("Quantity", "quantity"),
                aligned("Total", "value"),
                words("Unit", "unit"),
                aligned("Per tensor step", "per_tensor_step"),
                percents("Of the path", "of_path_length"),
                *page_only(words("Most in", "most_in"), percents("Of it", "most_share")),
                percents("Half by", "half_by"),
            ),
            "Totals over tensors and steps, means over the final seeds. Of the path: the distance that it moved the "
            "weights as a share of the path length of all steps; half by: the share of the training after which half "
            "of the total was reached.",
            kind=Quantity,
            file="mechanism",
            always=True,
        ),
    ),
)
