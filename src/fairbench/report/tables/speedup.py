"""The tables of speed-ups over the reference, and of their trends over size."""

from collections.abc import Sequence

from fairbench.analysis.comparison.size_trends import LadderLaw, SizeTrend
from fairbench.analysis.comparison.speedups import Speedup
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
from fairbench.report.tables.numbers import NONE, exact, p_value, percent, three


def speedup_text(row: Speedup) -> str:
    """A speed-up with its interval, such as "1.38 [1.21, ≥ 2.00]"; an end beyond the horizons is a bound."""
    if row.n == 0:
        return NONE
    bounds = {"at least": f"≥ {three(row.longest)}", "at most": f"≤ {three(row.shortest)}"}
    middle = bounds[row.beyond] if row.speedup is None else three(row.speedup)
    low = bounds["at most"] if row.ci_low is None else three(row.ci_low)
    high = bounds["at least"] if row.ci_high is None else three(row.ci_high)
    return f"{middle} [{low}, {high}]"


def speedup_table(rows: Sequence[Speedup]) -> TableView:
    """How much less training each arm needs than the reference."""
    reference = rows[0].reference if rows else ""
    caption = (
        f"Speed-up: the steps that {reference} needs to reach an arm’s final value on the test split, over the arm’s "
        f"own, by trainings of {reference} with other numbers of steps, each with its own schedule and search. An end "
        "with ≥ or ≤ is beyond them. Faster: the verdict on the arm is better, and the interval, which is not "
        "corrected, lies above 1."
    )
    ends = {"low": lambda row: row.ci_low, "high": lambda row: row.ci_high}
    of_time = {"low": lambda row: row.time_low, "high": lambda row: row.time_high}
    columns = (
        *ARM,
        integers("Steps", "steps"),
        Column("Speed-up [95% CI]", speedup_text, lambda row: row.speedup, more=ends),
        Column("In time [95% CI]", _time_text, lambda row: row.time_speedup, more=of_time),
        words("Verdict", "verdict"),
        Column("Faster", lambda row: "yes" if row.claimed else "no"),
        *page_only(integers("Seeds", "n"), words("Note", "note")),
    )
    return table_view("speedup", caption, columns, rows)


def _time_text(row: Speedup) -> str:
    if row.time_speedup is None:
        return NONE
    low, high = ("open" if end is None else three(end) for end in (row.time_low, row.time_high))
    return f"{three(row.time_speedup)} [{low}, {high}]"


def size_trend_table(rows: Sequence[SizeTrend], margin: float) -> TableView:
    """Whether the speed-up of each optimizer changes with the size of the model."""
    reference = rows[0].reference if rows else ""
    caption = (
        f"Whether the speed-up over {reference} changes with size, by one law for all sizes, horizons and optimizers. "
        "Speed-up: at the middle of the sizes, with its 95% interval, and at their ends. Trend: exponent of the size. "
        f"Holds: the trend is within the margin of {exact(margin)}."
    )
    ends = {"low": lambda row: row.ci_low, "high": lambda row: row.ci_high}
    columns = (
        *ARM,
        Column("Speed-up [95% CI]", _ratio_text, lambda row: row.speedup, more=ends),
        *page_only(numbers("Smallest", "smallest", three), numbers("Largest", "largest", three)),
        intervals("Trend", "trend", "trend_low", "trend_high"),
        numbers("Holm p", "p_holm", p_value),
        words("With size, it", "verdict"),
        *page_only(words("Note", "note")),
    )
    return table_view("size_trends", caption, columns, rows)


def _ratio_text(row: SizeTrend) -> str:
    if row.speedup is None or row.ci_low is None or row.ci_high is None:
        return three(row.speedup)
    return f"{three(row.speedup)} [{three(row.ci_low)}, {three(row.ci_high)}]"


def law_table(rows: Sequence[LadderLaw]) -> TableView:
    """The law of each ladder, and how well it fits."""
    caption = (
        "The law of a ladder: loss = E + A size^−α + B (r steps)^−β, where r is the speed-up of the optimizer. Error: "
        "mean over its cells, relative to the loss. Misfit: mean square of the residuals over what seeds explain, "
        "about 1 for a law that describes the cells. Left out: the error at the largest size, by the law of the others."
    )
    columns = (
        words("Arena", "arena"),
        *(numbers(title, name, three) for title, name in (("E", "E"), ("A", "A"), ("α", "alpha"), ("B", "B"))),
        numbers("β", "beta", three),
        integers("Cells", "cells"),
        integers("Seeds", "n"),
        numbers("Seeds differ by", "spread", three),
        numbers("Misfit", "misfit", three),
        numbers("Error", "error", percent),
        numbers("Left out", "left_out_error", percent),
    )
    return table_view("ladder_laws", caption, columns, rows)
