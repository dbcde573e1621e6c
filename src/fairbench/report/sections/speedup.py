"""The speed-up over the reference, and its trend over size."""

from dataclasses import replace
from operator import attrgetter
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.size_trends import SizeTrend, ladder_laws, size_trends
from fairbench.analysis.comparison.speedups import Speedup, speedups
from fairbench.analysis.statistics.scaling_law import LadderLaw
from fairbench.common.formatting import NONE, exact, interval, p_value, plural, some
from fairbench.report.document import Output, Section
from fairbench.report.figures.speedup import draw_size_trends, draw_speedup, speedup_text
from fairbench.report.view import (
    ARM,
    Column,
    aligned,
    answers,
    integers,
    intervals,
    numbers,
    page_only,
    percents,
    words,
)


def speed_up(analyses: Analyses) -> str:
    """Which arms are faster than the reference; empty without its curve over horizons."""
    rows = analyses.of(speedups)
    if not rows:
        return ""
    reference, faster = rows[0].reference, [row for row in rows if row.claimed]
    named = some([f"{row.arena}, {row.optimizer}: {speedup_text(row)}" for row in faster], "; ")
    return (
        f"{len(faster)} of {plural(len(rows), 'arm')} {'is' if len(faster) == 1 else 'are'} faster than {reference}, "
        f"which needs a verdict of better and an interval above 1{f'. {named}' if named else ''}. A speed-up is the "
        f"steps that {reference} needs for the same final value, over the arm’s own; ≥ and ≤ are beyond its horizons."
        + "".join(map(_trend, analyses.of(size_trends)))
    )


def _trend(row: SizeTrend) -> str:
    size = "" if row.trend is None else f" (trend {interval(row.trend, row.trend_low, row.trend_high)})"
    if row.verdict in ("grows", "shrinks", "holds"):
        return f" With size the speed-up of {row.optimizer} {row.verdict} in {row.arena}{size}."
    return f" Whether the speed-up of {row.optimizer} changes with size in {row.arena} cannot be told{size}."


def _ratios(title: str, *attributes: str) -> Column:
    """A column of an attribute that is a ratio, with its interval, of which an end can be open."""
    of = attrgetter(*attributes)

    def text(row: Any) -> str:
        middle, low, high = ("open" if x is None else f"{x:.2f}" for x in of(row))
        return NONE if middle == "open" else f"{middle} [{low}, {high}]"

    return replace(intervals(title, *attributes), show=text, together=None)


SPEEDUP = Section[Analyses](
    "speedup",
    "Speed-up",
    (
        Output(
            "speedup",
            "Speed-up over the reference",
            lambda a: a.of(speedups),
            (
                *ARM,
                integers("Steps", "steps"),
                replace(_ratios("Speed-up", "speedup", "ci_low", "ci_high"), show=speedup_text),
                _ratios("In time", "time_speedup", "time_low", "time_high"),
                words("Verdict", "verdict"),
                answers("Faster", "claimed"),
                *page_only(integers("Seeds", "n"), words("Note", "note")),
            ),
            lambda a: (
                f"Speed-up: the steps that {a.suite.reference} needs to reach an arm’s final value on the test split, "
                f"over the arm’s own, by trainings of {a.suite.reference} with other numbers of steps, each with its "
                "own schedule and search. An end with ≥ or ≤ is beyond them. Faster: the verdict on the arm is better, "
                "and the interval, which is not corrected, lies above 1."
            ),
            kind=Speedup,
            figure=draw_speedup,
            finding=("Speed-up", speed_up),
        ),
        Output(
            "size_trends",
            "Does it change with size?",
            lambda a: a.of(size_trends),
            (
                *ARM,
                _ratios("Speed-up", "speedup", "ci_low", "ci_high"),
                *page_only(aligned("Smallest", "smallest"), aligned("Largest", "largest")),
                intervals("Trend", "trend", "trend_low", "trend_high"),
                numbers("Holm p", "p_holm", p_value),
                words("Trend over size", "verdict"),
                *page_only(words("Note", "note")),
            ),
            lambda a: (
                f"Whether the speed-up over {a.suite.reference} changes with size, by one law for all sizes, horizons "
                "and optimizers. Speed-up: at the middle of the sizes, with its 95% interval, and at their ends. "
                "Trend: exponent of the size. "
                f"Holds: the trend is within the margin of {exact(a.suite.trend_margin)}."
            ),
            kind=SizeTrend,
            figure=draw_size_trends,
        ),
        Output(
            "ladder_laws",
            "The law",
            lambda a: a.of(ladder_laws),
            (
                words("Arena", "arena"),
                *(aligned(title, name) for title, name in (("E", "E"), ("A", "A"), ("α", "alpha"), ("B", "B"))),
                aligned("β", "beta"),
                integers("Cells", "cells"),
                integers("Seeds", "n"),
                aligned("Seeds differ by", "spread"),
                aligned("Misfit", "misfit"),
                percents("Error", "error"),
                percents("Left out", "left_out_error"),
            ),
            "The law of a ladder: loss = E + A size^−α + B (r steps)^−β, where r is the speed-up of the optimizer. "
            "Error: mean over its cells, relative to the loss. Misfit: mean square of the residuals over what seeds "
            "explain, about 1 for a law that describes the cells. Left out: the error at the largest size, by the law "
            "of the others.",
            kind=LadderLaw,
        ),
    ),
)
