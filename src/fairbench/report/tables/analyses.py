"""The tables of leaderboard, ranks, schedules, causes, shocks, mechanisms and tuning."""

from collections.abc import Sequence

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.controls import WHOLE, Contribution, contributions
from fairbench.analysis.comparison.leaderboard import Standing, leaderboard
from fairbench.analysis.comparison.ranking import Rank, ranking
from fairbench.analysis.comparison.schedules import Interaction, interactions
from fairbench.analysis.comparison.shocks import ShockCost, shock_costs
from fairbench.analysis.comparison.size_trends import ladder_laws, size_trends
from fairbench.analysis.comparison.speedups import speedups
from fairbench.analysis.comparison.verdicts import FROM_BASELINE
from fairbench.analysis.mechanism import Mechanism, Quantity, mechanisms, quantities
from fairbench.analysis.tuning import ALL, DEFAULT, Tuning, tuning
from fairbench.report.tables.model import (
    ARM,
    Column,
    TableView,
    integers,
    intervals,
    numbers,
    page_only,
    table_view,
    words,
)
from fairbench.report.tables.numbers import NONE, exact, number, p_value, percent, rate, signed, three
from fairbench.report.tables.speedup import law_table, size_trend_table, speedup_table

SMALL_BUDGETS = ("1", "2", "4", "8")
"""The numbers of settings for which the table of tuning has columns, where every arm of an arena tried as many."""


def analysis_tables(analyses: Analyses) -> list[TableView]:
    """All tables of this module."""
    return [
        leaderboard_table(analyses.of(leaderboard), analyses.suite.reference),
        ranking_table(analyses.of(ranking)),
        speedup_table(analyses.of(speedups)),
        size_trend_table(analyses.of(size_trends), analyses.suite.trend_margin),
        law_table(analyses.of(ladder_laws)),
        schedule_table(analyses.of(interactions), analyses.suite.compare == "all"),
        cause_table(analyses.of(contributions)),
        shock_table(analyses.of(shock_costs)),
        mechanism_table(analyses.of(mechanisms)),
        quantity_table(analyses.of(quantities)),
        tuning_table(analyses.of(tuning), analyses.suite.selection_name),
    ]


def leaderboard_table(standings: Sequence[Standing], reference: str) -> TableView:
    """All optimizers over all arenas."""
    difference = next((x.critical_difference for x in standings if x.critical_difference is not None), None)
    separation = (
        "There are too few arenas to separate mean ranks."
        if difference is None
        else f"Mean ranks that differ by less than {three(difference)} are not separated (Nemenyi): they share a group."
    )
    caption = (
        "Every optimizer over all arenas, by its mean rank, with the number of arenas in which it is better than "
        f"{reference}, equivalent to it, worse, or undecided. {separation} Times are multiples of {reference}’s; state "
        "is the number of values for each weight."
    )
    faster = numbers("Speed-up", "speedup", three), *page_only(numbers("Faster in", "faster", exact))
    columns = (
        words("Optimizer", "optimizer"),
        numbers("Mean rank", "mean_rank", three),
        *page_only(words("Groups", "groups")),
        *(numbers(verdict.capitalize(), verdict, exact) for verdict in FROM_BASELINE),
        *page_only(numbers("Undecided", "undecided", exact)),
        numbers("Step time", "step_ratio", three),
        numbers("Training time", "train_ratio", three),
        *(faster if any(x.faster is not None for x in standings) else ()),
        *page_only(Column("State", _state), Column("Rate", lambda x: "searched" if x.tuned else "fixed")),
    )
    return table_view("leaderboard", caption, columns, standings)


def _state(standing: Standing) -> str:
    """What an optimizer keeps for each weight, and its further state, in words."""
    known = "" if standing.state is None else str(standing.state)
    return f"{known}, and {standing.further_state}" if standing.further_state else known


def ranking_table(ranking: Sequence[Rank]) -> TableView:
    """The rank of each arm with its bounds."""
    caption = (
        "Ranks by the primary metric, 1 is best, with the best and the worst rank that is not ruled out. Optimizers "
        "that share a group are not separated."
    )
    columns = (
        *ARM,
        numbers("Mean", "mean", number),
        numbers("Rank", "rank", exact),
        numbers("At best", "rank_low", exact),
        numbers("At worst", "rank_high", exact),
        words("Groups", "groups"),
        words("Separated by", "method"),
    )
    return table_view("ranking", caption, columns, ranking)


def schedule_table(interactions: Sequence[Interaction], every: bool) -> TableView:
    """Whether the verdict of each comparison is the same under another schedule.

    Args:
        interactions: the rows.
        every: whether all pairs are compared, so that a column must name the first optimizer.
    """
    caption = (
        "Whether a win survives another learning-rate schedule: the verdicts of a pair under schedules A and B. "
        "Interaction: the advantage under B minus that under A, with a 95% confidence interval by the pooled variance "
        "of the four arms. Holm p is corrected for all rows, the interval is not."
    )
    columns = (
        words("Arena", "arena"),
        *([words("Optimizer", "optimizer")] if every else []),
        words("Baseline", "baseline"),
        words("A", "schedule_a"),
        words("B", "schedule_b"),
        words("Under A", "verdict_a"),
        words("Under B", "verdict_b"),
        words("Survives", "survives"),
        *page_only(numbers("Advantage, A", "advantage_a", signed), numbers("Advantage, B", "advantage_b", signed)),
        intervals("Interaction", "interaction"),
        numbers("Holm p", "p_holm", p_value),
        *page_only(words("Note", "note")),
    )
    return table_view("schedules", caption, columns, interactions)


def cause_table(causes: Sequence[Contribution]) -> TableView:
    """The contribution of each rung of the control ladder."""
    caption = (
        "The contribution of each rung of the control ladder to the primary metric, positive where it is better; mean "
        "over the seeds and its 95% confidence interval, paired by seed, not corrected. The rungs of an arena sum to "
        "the whole."
    )
    columns = (
        words("Arena", "arena"),
        Column("Rung", lambda c: f"{c.before} → {c.optimizer}" + (" (the whole)" if c.part == WHOLE else "")),
        words("Metric", "metric"),
        intervals("Contribution", "contribution"),
        integers("Seeds", "n"),
        words("Note", "note"),
    )
    return table_view("causes", caption, columns, causes)


def shock_table(shocks: Sequence[ShockCost]) -> TableView:
    """The cost of shocks."""
    caption = (
        "The cost of the shocks of a disturbed arena, each seed against its undisturbed twin: the excess of the "
        "training loss, summed over the steps; steps until it is within 5% again, median; how much worse the final "
        "test metric is, with a 95% confidence interval, paired by seed, that is not corrected."
    )
    columns = (
        *ARM,
        integers("Seeds", "n"),
        integers("Diverged", "diverged"),
        numbers("Excess loss, sum", "excess", three),
        numbers("Steps to recover", "recovery", exact),
        numbers("Shocks overcome", "recovered", percent),
        intervals("Lost", "lost", "lost_low", "lost_high"),
        words("Note", "note"),
    )
    return table_view("shocks", caption, columns, shocks)


def mechanism_table(mechanisms: Sequence[Mechanism]) -> TableView:
    """The effect of each optimizer's mechanism in words."""
    caption = "The effect of the optimizers’ mechanisms in the final trials. A tensor step is one tensor in one step."
    columns = (*ARM, integers("Seeds", "n"), words("In words", "state"))
    return table_view("mechanism", caption, columns, mechanisms)


def quantity_table(quantities: Sequence[Quantity]) -> TableView:
    """The effect of each optimizer's mechanism in numbers."""
    caption = (
        "Totals over tensors and steps, means over the final seeds. Of the path: the distance that it moved the "
        "weights as a share of the path length of all steps; half by: the share of the training after which half of "
        "the total was reached."
    )
    columns = (
        *ARM,
        words("Quantity", "quantity"),
        numbers("Total", "value", three),
        words("Unit", "unit"),
        numbers("Per tensor step", "per_tensor_step", three),
        numbers("Of the path", "of_path_length", percent),
        *page_only(words("Most in", "most_in"), numbers("Of it", "most_share", percent)),
        numbers("Half by", "half_by", percent),
    )
    return table_view("quantities", caption, columns, quantities)


def tuning_table(rows: Sequence[Tuning], split: str) -> TableView:
    """What each arm reaches at its default, with few settings and with all of its search."""
    caption = (
        f"What tuning costs, by the values of the search: {split} split, end of the sweep trials. Default: the tried "
        "setting nearest to the optimizer’s own, or the middle of the grid if it has none; a dash if its own is "
        "outside the tried ones. Best of 2: expected for 2 settings that are drawn at random, with replacement, from "
        "those tried. In parentheses: the rank in the arena. Gain: of the best over the default; it includes the luck "
        "of the selection. A setting that diverged counts as the worst value with which one finished in the arena."
    )
    found = {(row.arena, row.optimizer, row.drawn): row for row in rows}

    def reached(title: str, drawn: str) -> Column:
        def at(row: Tuning) -> Tuning | None:
            return found.get((row.arena, row.optimizer, drawn))

        value, place = (lambda row, of=of: getattr(at(row), of, None) for of in ("value", "rank"))
        return Column(title, lambda row: _with_rank(at(row)), value, more={"rank": place})

    def lost(row: Tuning) -> float:
        return found[row.arena, row.optimizer, "1"].p_diverged

    every = [row for row in rows if row.drawn == ALL]
    few = [k for k in SMALL_BUDGETS if any(row.drawn == k and row.rank for row in rows)]
    columns = (
        *ARM,
        *page_only(words("Metric", "metric")),
        numbers("Default rate", "default_lr", rate),
        reached("At the default", DEFAULT),
        *(reached(f"Best of {k}", k) for k in few),
        reached("Best of all", ALL),
        *page_only(integers("Settings", "settings")),
        *([Column("Diverged", lambda row: percent(lost(row)), lost)] if any(map(lost, every)) else []),
        numbers("Gain", "gain", signed),
    )
    return table_view("tuning", caption, columns, every)


def _with_rank(row: Tuning | None) -> str:
    if row is None:
        return NONE
    return ("diverged" if row.p_diverged == 1 else number(row.value)) + (f" ({exact(row.rank)})" if row.rank else "")
