"""Speed-ups: how many fewer steps than the reference an optimizer needs, and whether this changes with size."""

from dataclasses import replace

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.size_trends import SizeTrend, ladder_laws, size_trends
from fairbench.analysis.comparison.speedups import Speedup, speedups
from fairbench.analysis.statistics.scaling_law import LadderLaw
from fairbench.common.formatting import exact, interval, p_value, plural, some
from fairbench.report.columns import (
    ARM,
    WITH_INTERVAL,
    aligned,
    answers,
    integers,
    intervals,
    numbers,
    page_only,
    percents,
    ratios,
    words,
)
from fairbench.report.document import Output, Section
from fairbench.report.figures.size_trends import draw_size_trends
from fairbench.report.figures.speedup import draw_speedup, speedup_text


def speed_up(analyses: Analyses) -> str:
    """Sentences on the arms that are faster than the reference; empty without its curve over horizons."""
    rows = analyses.of(speedups)
    if not rows:
        return ""
    reference = rows[0].reference
    faster = [f"{row.arena}, {row.optimizer}: {speedup_text(row)}" for row in rows if row.claimed]
    are = "is" if len(faster) == 1 else "are"
    named = ""
    if faster:
        named = f". {some(faster, '; ')}"
    statement = (
        f"{len(faster)} of {plural(len(rows), 'arm')} {are} faster than {reference}, "
        f"which needs a verdict of better and an interval above 1{named}. A speed-up is the "
        f"steps that {reference} needs for the same final value, over the arm’s own; ≥ and ≤ are beyond its horizons."
    )
    trends = [_trend(row) for row in analyses.of(size_trends)]
    return " ".join([statement, *trends])


def _trend(row: SizeTrend) -> str:
    """A sentence on whether the speed-up of an optimizer changes with size."""
    size = ""
    if row.trend is not None:
        size = f" (trend {interval(row.trend, row.trend_low, row.trend_high)})"
    if row.verdict in ("grows", "shrinks", "holds"):
        return f"With size the speed-up of {row.optimizer} {row.verdict} in {row.arena}{size}."
    return f"Whether the speed-up of {row.optimizer} changes with size in {row.arena} cannot be told{size}."


SPEEDUP_RATIO = replace(ratios(f"Speed-up{WITH_INTERVAL}", "speedup", "ci_low", "ci_high"), show=speedup_text)

SPEEDUP_COLUMNS = (
    *ARM,
    integers("Steps", "steps"),
    SPEEDUP_RATIO,
    ratios(f"In time{WITH_INTERVAL}", "time_speedup", "time_low", "time_high"),
    words("Verdict", "verdict"),
    answers("Faster", "claimed"),
    *page_only(integers("Seeds", "n"), words("Note", "note")),
)


def _speedup_caption(analyses: Analyses) -> str:
    """The caption of the table of speed-ups."""
    reference = analyses.suite.reference
    return (
        f"Speed-up: the steps that {reference} needs to reach an arm’s final value on the test split, "
        f"over the arm’s own, by trainings of {reference} with other numbers of steps, each with its "
        "own schedule and search. An end with ≥ or ≤ is beyond them. Faster: the verdict on the arm is better, "
        "and the interval, which is not corrected, lies above 1."
    )


SPEEDUP_TABLE = Output[Analyses](
    name="speedup",
    title="Speed-up over the reference",
    rows=lambda analyses: analyses.of(speedups),
    columns=SPEEDUP_COLUMNS,
    caption=_speedup_caption,
    kind=Speedup,
    figure=draw_speedup,
    finding=("Speed-up", speed_up),
)

SIZE_TREND_COLUMNS = (
    *ARM,
    ratios(f"Speed-up{WITH_INTERVAL}", "speedup", "ci_low", "ci_high"),
    *page_only(aligned("Smallest", "smallest"), aligned("Largest", "largest")),
    intervals("Trend", "trend", "trend_low", "trend_high"),
    numbers("Holm p", "p_holm", form=p_value),
    words("Trend over size", "verdict"),
    *page_only(words("Note", "note")),
)


def _size_trend_caption(analyses: Analyses) -> str:
    """The caption of the table of trends over size."""
    suite = analyses.suite
    return (
        f"Whether the speed-up over {suite.reference} changes with size, by one law for all sizes, horizons "
        "and optimizers. Speed-up: at the middle of the sizes, with its 95% interval, and at their ends. "
        "Trend: exponent of the size. "
        f"Holds: the trend is within the margin of {exact(suite.trend_margin)}."
    )


SIZE_TRENDS_TABLE = Output[Analyses](
    name="size_trends",
    title="Does it change with size?",
    rows=lambda analyses: analyses.of(size_trends),
    columns=SIZE_TREND_COLUMNS,
    caption=_size_trend_caption,
    kind=SizeTrend,
    figure=draw_size_trends,
)

LAW_COLUMNS = (
    words("Arena", "arena"),
    aligned("E", "E"),
    aligned("A", "A"),
    aligned("α", "alpha"),
    aligned("B", "B"),
    aligned("β", "beta"),
    integers("Cells", "cells"),
    integers("Seeds", "n"),
    aligned("Seeds differ by", "spread"),
    aligned("Misfit", "misfit"),
    percents("Error", "error"),
    percents("Left out", "left_out_error"),
)

LAWS_TABLE = Output[Analyses](
    name="ladder_laws",
    title="The law",
    rows=lambda analyses: analyses.of(ladder_laws),
    columns=LAW_COLUMNS,
    caption=(
        "The law of a ladder: loss = E + A size^−α + B (r steps)^−β, where r is the speed-up of the optimizer. "
        "Error: mean over its cells, relative to the loss. Misfit: mean square of the residuals over what seeds "
        "explain, about 1 for a law that describes the cells. Left out: the error at the largest size, by the law "
        "of the others."
    ),
    kind=LadderLaw,
)

SPEEDUP = Section[Analyses](
    name="speedup",
    title="Speed-up",
    outputs=(SPEEDUP_TABLE, SIZE_TRENDS_TABLE, LAWS_TABLE),
)
