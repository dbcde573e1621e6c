"""The table of speed-ups over the reference."""

from collections.abc import Sequence

from fairbench.analysis.comparison.speedups import Speedup
from fairbench.report.tables.model import ARM, Column, TableView, integers, page_only, table_view, words
from fairbench.report.tables.numbers import NONE, three


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
