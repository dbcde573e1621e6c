"""The results: every comparison with its statistics, ranks, schedules, and every metric."""

from collections.abc import Sequence
from operator import attrgetter

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.leaderboard import DECIDED, Standing, leaderboard
from fairbench.analysis.comparison.ranking import Rank, ranking
from fairbench.analysis.comparison.schedules import Interaction, interactions
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.curves import Aggregate, aggregates
from fairbench.common.formatting import NONE, PLUS_MINUS, column_of_means, exact, number, p_value
from fairbench.report.document import Output, Section
from fairbench.report.sections.verdicts import TEST_NAMES, naming, verdict_text
from fairbench.report.view import (
    ARM,
    Column,
    aligned,
    differences,
    integers,
    intervals,
    means,
    numbers,
    page_only,
    values,
    words,
)
from fairbench.suites.stages import TESTS


def _pair_columns(analyses: Analyses) -> tuple[Column, ...]:
    """The columns that name a comparison."""
    sides = naming(analyses.comparisons)
    return words("Arena", "arena"), *(words(side.capitalize(), side) for side in sides)


def _mean(analyses: Analyses, i: int, side: str) -> Column:
    """The mean of one side of a comparison, with the digits that the deviations support."""
    names, of = analyses.suite.sides[i], attrgetter(f"mean_{side}", f"std_{side}")
    title = f"Mean of {names[0] if len(names) == 1 else f'the {side}'}"

    def together(rows: Sequence[Comparison]) -> list[str]:
        return [text.partition(PLUS_MINUS)[0] for text in column_of_means([*map(of, rows)])]

    return Column(title, str, attrgetter(f"mean_{side}"), together=together)


def _comparison_columns(analyses: Analyses) -> tuple[Column, ...]:
    """Every comparison with its tests."""
    decides = analyses.suite.final.test
    (other,) = TESTS.keys() - {decides}
    return (
        *_pair_columns(analyses),
        Column("Verdict", verdict_text),
        *page_only(
            Column("Metric", lambda c: f"{c.metric}\N{NO-BREAK SPACE}{'↓' if c.direction == 'min' else '↑'}"),
            *(_mean(analyses, *side) for side in enumerate(("optimizer", "baseline"))),
        ),
        intervals("Gain", "gain"),
        *page_only(
            numbers("Margin", "margin", exact),
            aligned("Hedges’ g", "hedges_g"),
            numbers(f"{decides.capitalize()} p", "p", p_value),
        ),
        numbers("Holm p", "p_holm", p_value),
        numbers("TOST p", "p_equivalence", p_value),
        *page_only(
            numbers(f"{other.capitalize()} p", "p_other", p_value),
            numbers("r", "seed_correlation", lambda r: NONE if r is None else f"{r:.2f}".replace("-", "−")),
            numbers("Seeds needed", "seeds_needed", exact),
        ),
    )


def _comparison_caption(analyses: Analyses) -> str:
    suite = analyses.suite
    caption = (
        f"Final value of each arena’s primary metric on the test split, {suite.question}. Gain, interval and g are "
        "positive where the optimizer is better than the baseline. Only “better” is a win. "
        f"The test is {TEST_NAMES[suite.final.test]}, alpha {exact(suite.alpha)}; the interval is not corrected for "
        "the number of comparisons, Holm p is. The p of the other test, the correlation r of the arms over seeds, and "
        "the seeds that would find a difference of the margin decide nothing."
    )
    return f"{caption} Intervals and p are corrected for the looks." if suite.final.looks else caption


def _leaderboard_columns(analyses: Analyses) -> tuple[Column, ...]:
    faster = aligned("Speed-up", "speedup"), *page_only(numbers("Faster in", "faster", exact))
    return (
        words("Optimizer", "optimizer"),
        aligned("Mean rank", "mean_rank"),
        *page_only(words("Groups", "groups")),
        *(numbers(verdict.capitalize(), verdict, exact) for verdict in DECIDED),
        *page_only(numbers("Undecided", "undecided", exact)),
        aligned("Step time", "step_ratio"),
        aligned("Training time", "train_ratio"),
        *(faster if any(x.faster is not None for x in analyses.of(leaderboard)) else ()),
        *page_only(Column("State", _state), Column("Rate", lambda x: "searched" if x.tuned else "fixed")),
    )


def _leaderboard_caption(analyses: Analyses) -> str:
    reference = analyses.suite.reference
    known = (x.critical_difference for x in analyses.of(leaderboard))
    difference = next((x for x in known if x is not None), None)
    separation = (
        "There are too few arenas to separate mean ranks."
        if difference is None
        else f"Mean ranks that differ by less than {number(difference, 3)} are not separated (Nemenyi): "
        "they share a group."
    )
    return (
        "Every optimizer over all arenas, by its mean rank, with the number of arenas in which it is better than "
        f"{reference}, equivalent to it, worse, or undecided. {separation} Times are multiples of {reference}’s; state "
        "is the number of values for each weight."
    )


def _state(standing: Standing) -> str:
    """What an optimizer keeps for each weight, and its further state, in words."""
    known = "" if standing.state is None else str(standing.state)
    return f"{known}, and {standing.further_state}" if standing.further_state else known


def _metric_columns(analyses: Analyses) -> tuple[Column, ...]:
    arenas = analyses.suite.arenas
    return (
        words("Arena", "arena"),
        Column("Metric", lambda a: f"{a.metric}{' (primary)' if a.metric == arenas[a.arena].metric else ''}"),
        words("Optimizer", "optimizer"),
        means("Mean ± std", "mean", "std"),
        integers("Finished", "n"),
        integers("Diverged", "diverged"),
        *page_only(integers("Failed", "failed"), integers("Missing", "missing")),
    )


def _by_metric(analyses: Analyses) -> list[Aggregate]:
    metrics = analyses.results.metrics
    order = {pair: i for i, pair in enumerate((x, metric) for x in analyses.suite.arenas for metric in metrics[x])}
    return sorted(analyses.of(aggregates), key=lambda a: order[a.arena, a.metric])


RESULTS = Section[Analyses](
    "results",
    "Results",
    (
        Output(
            "comparisons",
            "Every comparison",
            lambda a: a.comparisons,
            _comparison_columns,
            _comparison_caption,
            kind=Comparison,
            file="significance",
            always=True,
            in_terminal=True,
        ),
        Output(
            "leaderboard",
            "Leaderboard",
            lambda a: a.of(leaderboard),
            _leaderboard_columns,
            _leaderboard_caption,
            kind=Standing,
        ),
        Output(
            "schedules",
            "Does the win survive the other schedule?",
            lambda a: a.of(interactions),
            lambda a: (
                *_pair_columns(a),
                words("A", "schedule_a"),
                words("B", "schedule_b"),
                words("Under A", "verdict_a"),
                words("Under B", "verdict_b"),
                words("Survives", "survives"),
                *page_only(differences("Gain, A", "gain_a"), differences("Gain, B", "gain_b")),
                intervals("Interaction", "interaction"),
                numbers("Holm p", "p_holm", p_value),
                *page_only(words("Note", "note")),
            ),
            "Whether a win survives another learning-rate schedule: the verdicts of a pair under schedules A and B. "
            "Interaction: the gain under B minus that under A, with a 95% confidence interval by the pooled "
            "variance of the four arms. Holm p is corrected for all rows, the interval is not.",
            kind=Interaction,
        ),
        Output(
            "ranking",
            "Ranks",
            lambda a: a.of(ranking),
            (
                *ARM,
                values("Mean", "mean"),
                numbers("Rank", "rank", exact),
                numbers("At best", "rank_low", exact),
                numbers("At worst", "rank_high", exact),
                words("Groups", "groups"),
                words("Separated by", "method"),
            ),
            "Ranks by the primary metric, 1 is best, with the best and the worst rank that is not ruled out. "
            "Optimizers that share a group are not separated.",
            kind=Rank,
        ),
        Output(
            "metrics",
            "Every metric",
            lambda a: a.of(aggregates),
            _metric_columns,
            "Test split, mean and standard deviation over the finished seeds. Where seeds diverged, failed or are "
            "missing, the mean is that of the finished ones and is not compared.",
            shown=_by_metric,
            kind=Aggregate,
            file="aggregate",
            always=True,
        ),
    ),
)
