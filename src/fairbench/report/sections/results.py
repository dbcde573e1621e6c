"""The results: every comparison with its statistics, schedules, and every metric."""

from collections.abc import Callable, Sequence
from operator import attrgetter

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.schedules import Interaction, interactions
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.curves import Aggregate, aggregates
from fairbench.common.column_formatting import column_of_intervals, column_of_means, column_of_numbers
from fairbench.common.formatting import (
    NONE,
    PLUS_MINUS,
    confidence_level,
    exact,
    interval_name,
    p_value,
    percent,
    with_arrow,
)
from fairbench.report.columns import aligned, differences, integers, intervals, means, numbers, page_only, words
from fairbench.report.document import Output, Section
from fairbench.report.sections.ranks import LEADERBOARD_TABLE, RANKING_TABLE
from fairbench.report.sections.verdict_grid import naming, verdict_text
from fairbench.report.sections.verdicts import TEST_NAMES
from fairbench.report.view import TableView, TextColumn, table_view


def table_of_comparisons(comparisons: Sequence[Comparison], alpha: float) -> TableView:
    """The table of the comparisons of a user's table. `alpha` is their family-wise error rate."""
    columns = _pair_columns(comparisons)
    columns += [TextColumn("Verdict", verdict_text), _gain_column(), numbers("Holm p", "p_holm", form=p_value)]
    margins = list(dict.fromkeys(exact(row.margin) for row in comparisons if row.margin is not None))
    margin = ""
    if margins:
        columns.append(numbers("Holm TOST p", "p_equivalence_holm", form=p_value))
        margin = f", margin {margins[0]}"
    if len(margins) > 1:
        columns.append(numbers("Margin", "margin", form=exact))
        margin = ""
    interval = interval_name(c.ci_level for c in comparisons)
    metrics = ", ".join(dict.fromkeys(map(_metric_with_arrow, comparisons)))
    caption = (
        f"The verdicts on {metrics}, alpha {exact(alpha)}{margin}. Gain and interval are positive where the optimizer "
        f"is better than the baseline. The {interval} decides: it is corrected for the number of comparisons, as Holm "
        "p is."
    )
    return table_view("verdicts", caption, columns, comparisons)


def _pair_columns(comparisons: Sequence[Comparison]) -> list[TextColumn]:
    """The columns that name a comparison."""
    columns = [words("Arena", "arena")]
    for side in naming(comparisons):
        columns.append(words(side.capitalize(), side))
    return columns


def _comparison_columns(analyses: Analyses) -> list[TextColumn]:
    """The columns of the table of comparisons, with the statistics of each."""
    optimizers, baselines = analyses.suite.sides
    columns = _pair_columns(analyses.comparisons)
    columns.append(TextColumn("Verdict", verdict_text))
    columns += page_only(
        TextColumn("Metric", _metric_with_arrow),
        _mean_column("optimizer", optimizers),
        _mean_column("baseline", baselines),
    )
    columns.append(_gain_column())
    columns += page_only(numbers("Margin", "margin", form=exact))
    if analyses.suite.searches:
        columns += page_only(
            TextColumn("Finer search", str, together=_finer_searches),
            TextColumn("Share of the split", _split_text, value=_share_of_split),
        )
    columns += page_only(aligned("g", "hedges_g"))
    columns.append(numbers("Holm p", "p_holm", form=p_value))
    columns.append(numbers("Holm TOST p", "p_equivalence_holm", form=p_value))
    columns += page_only(
        numbers("r", "seed_correlation", form=_correlation),
        numbers("Seeds needed", "seeds_needed", form=exact),
    )
    return columns


def _metric_with_arrow(comparison: Comparison) -> str:
    """The metric with an arrow, which says whether lower or higher values are better."""
    return with_arrow(comparison.metric, comparison.direction)


def _gain_column() -> TextColumn:
    """The column of the gains, each with the interval that decides it, and the level of this interval."""
    interval = attrgetter("gain", "ci_low", "ci_high")

    def texts(comparisons: Sequence[Comparison]) -> list[str]:
        gains = column_of_intervals([interval(c) for c in comparisons])
        cells = []
        for gain, c in zip(gains, comparisons, strict=True):
            if c.ci_level is None:
                cells.append(gain)
            else:
                cells.append(f"{gain} {confidence_level(c.ci_level)}")
        return cells

    return TextColumn(
        title="Gain [interval] level",
        show=str,
        value=attrgetter("gain"),
        more={"low": attrgetter("ci_low"), "high": attrgetter("ci_high"), "level": attrgetter("ci_level")},
        together=texts,
    )


def _finer_searches(comparisons: Sequence[Comparison]) -> list[str]:
    """How much finer searches could still change each gain in favor of the optimizer, and of the baseline."""
    ours = column_of_numbers([c.finer_optimizer for c in comparisons])
    theirs = column_of_numbers([c.finer_baseline for c in comparisons])
    texts = []
    for c, gain, gain_of_baseline in zip(comparisons, ours, theirs, strict=True):
        if c.error is None:
            texts.append(NONE)
        else:
            texts.append(f"{gain} / {gain_of_baseline}")
    return texts


def _share_of_split(c: Comparison) -> float | None:
    """The share of the variance of a gain that the choice of the test examples makes; None if it is not known."""
    if c.split_error is None or not c.error:
        return None
    return (c.split_error / c.error) ** 2


def _split_text(c: Comparison) -> str:
    """The share of the choice of the test examples in percent."""
    return percent(_share_of_split(c))


def _mean_column(side: str, names: Sequence[str]) -> TextColumn:
    """The column of the means of one side of the comparisons, with as many digits as the deviations support.

    `names` are the optimizers of this side.
    """
    title = f"Mean of the {side}"
    if len(names) == 1:
        title = f"Mean of {names[0]}"
    mean_and_std = attrgetter(f"mean_{side}", f"std_{side}")

    def texts(comparisons: Sequence[Comparison]) -> list[str]:
        with_deviations = column_of_means([mean_and_std(comparison) for comparison in comparisons])
        return [text.partition(PLUS_MINUS)[0] for text in with_deviations]

    return TextColumn(title, str, value=attrgetter(f"mean_{side}"), together=texts)


def _correlation(r: float | None) -> str:
    """A correlation as text; a dash without one."""
    if r is None:
        return NONE
    return f"{r:.2f}".replace("-", "−")


def _comparison_caption(analyses: Analyses) -> str:
    """The caption of the table of comparisons."""
    suite = analyses.suite
    interval = interval_name(c.ci_level for c in analyses.comparisons)
    contained = ""
    if suite.searches:
        contained = (
            "It contains how much finer searches of both learning rates could still change the gain in favor of the "
            "optimizer / the baseline (–: not known, as where the best rate lies at the edge). It also contains the "
            "choice of the test examples, whose share of the variance is given. "
        )
    caption = (
        f"Final value of each arena’s primary metric on the test split, {suite.question}. Gain, interval and g are "
        "positive where the optimizer is better than the baseline. Only “better” is a win. "
        f"The test is {TEST_NAMES[suite.final.test]}, alpha {exact(suite.alpha)}. The {interval} decides: it is "
        "corrected for the number of comparisons, as Holm p of a difference and Holm TOST p of equivalence are. "
        f"{contained}Hedges’ g, the correlation r of the arms over seeds, and "
        "the seeds that would find a difference of the margin decide nothing."
    )
    if suite.final.interim_analyses:
        caption += " Intervals and p are corrected for the interim analyses."
    return caption


COMPARISONS_TABLE = Output[Analyses](
    name="comparisons",
    title="Every comparison",
    rows=lambda analyses: analyses.comparisons,
    columns=_comparison_columns,
    caption=_comparison_caption,
    kind=Comparison,
    file="significance",
    always=True,
    in_terminal=True,
)


def _schedule_columns(analyses: Analyses) -> list[TextColumn]:
    """The columns of the table of wins under two schedules."""
    return [
        *_pair_columns(analyses.comparisons),
        words("A", "schedule_a"),
        words("B", "schedule_b"),
        words("Under A", "verdict_a"),
        words("Under B", "verdict_b"),
        words("Survives", "survives"),
        *page_only(differences("Gain, A", "gain_a"), differences("Gain, B", "gain_b")),
        intervals("Interaction", "interaction"),
        numbers("Holm p", "p_holm", form=p_value),
        *page_only(words("Compared", "method"), words("Note", "note")),
    ]


SCHEDULES_TABLE = Output[Analyses](
    name="schedules",
    title="Does the win survive the other schedule?",
    rows=lambda analyses: analyses.of(interactions),
    columns=_schedule_columns,
    caption=(
        "Whether a win survives another learning-rate schedule: the verdicts of a pair under schedules A and B. "
        "Interaction: the gain under B minus that under A, with a 95% confidence interval, seed by seed where all four "
        "arms have the same seeds, otherwise by their pooled variance. Holm p is corrected for all rows, the interval "
        "is not."
    ),
    kind=Interaction,
)


def _metric_columns(analyses: Analyses) -> list[TextColumn]:
    """The columns of the table of all metrics."""
    return [
        words("Arena", "arena"),
        TextColumn("Metric", _metric_name(analyses)),
        words("Optimizer", "optimizer"),
        means("Mean ± std", "mean", "std"),
        integers("Finished", "n"),
        *_lost_columns(analyses),
    ]


def _lost_columns(analyses: Analyses) -> list[TextColumn]:
    """A column for each kind of lost seeds that occurs in the study."""
    columns = []
    for kind in ("diverged", "failed", "missing"):
        if any(getattr(row, kind) for row in analyses.of(aggregates)):
            columns.append(integers(kind.capitalize(), kind))
    return columns


def _metric_name(analyses: Analyses) -> Callable[[Aggregate], str]:
    """A function that returns the metric of a row, with a remark if it is the primary one."""
    arenas = analyses.suite.arenas

    def text(row: Aggregate) -> str:
        if row.metric == arenas[row.arena].metric:
            return f"{row.metric} (primary)"
        return row.metric

    return text


def _by_metric(analyses: Analyses) -> list[Aggregate]:
    """The rows of all metrics, sorted by arena, then in the order of the arena's metrics."""
    places: dict[tuple[str, str], int] = {}
    for arena in analyses.suite.arenas:
        for metric in analyses.results.metrics[arena]:
            places[arena, metric] = len(places)
    return sorted(analyses.of(aggregates), key=lambda row: places[row.arena, row.metric])


METRICS_TABLE = Output[Analyses](
    name="metrics",
    title="Every metric",
    rows=lambda analyses: analyses.of(aggregates),
    columns=_metric_columns,
    caption=(
        "Test split, mean and standard deviation over the finished seeds. Where seeds diverged, failed or are "
        "missing, the mean is that of the finished ones and is not compared."
    ),
    shown=_by_metric,
    kind=Aggregate,
    file="aggregate",
    always=True,
)

RESULTS = Section[Analyses](
    name="results",
    title="Results",
    outputs=(COMPARISONS_TABLE, LEADERBOARD_TABLE, SCHEDULES_TABLE, RANKING_TABLE, METRICS_TABLE),
)
