"""The values that each arm reaches at its default, with a few settings, and with its whole search."""

from collections.abc import Mapping, Sequence

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.tuning import ALL, DEFAULT, Tuning, tuning
from fairbench.common.column_formatting import column_of_numbers
from fairbench.common.formatting import exact, percent, rate
from fairbench.report.columns import ARM, differences, integers, numbers, page_only, words
from fairbench.report.view import TableView, TextColumn, table_view

SMALL_BUDGETS = ("1", "2", "4", "8")
"""The numbers of settings for which the table has columns, if every arm of an arena tried at least as many."""

ByDrawn = Mapping[tuple[str, str, str], Tuning]
"""The value that each arm reaches, by arena, optimizer and the number of settings that are drawn."""


def tuning_table(analyses: Analyses) -> TableView:
    """The table of what tuning costs, with a row for each arm."""
    rows = analyses.of(tuning)
    by_drawn = {(row.arena, row.optimizer, row.drawn): row for row in rows}
    arms = [row for row in rows if row.drawn == ALL]
    columns = [
        *ARM,
        *page_only(words("Metric", "metric")),
        numbers("Default rate", "default_lr", form=rate),
        _reached("At the default", DEFAULT, by_drawn),
    ]
    for budget in SMALL_BUDGETS:
        if any(row.drawn == budget and row.rank for row in rows):
            columns.append(_reached(f"Best of {budget}", budget, by_drawn))
    columns.append(_reached("Best of all", ALL, by_drawn))
    columns += page_only(integers("Settings", "settings"))
    if any(_share_diverged(arm, by_drawn) for arm in arms):
        columns.append(_diverged(by_drawn))
    columns.append(differences("Gain", "gain"))
    return table_view("tuning", _caption(analyses), columns, arms)


def _caption(analyses: Analyses) -> str:
    """The caption of the table of what tuning costs."""
    return (
        f"What tuning costs, by the values of the search: {analyses.suite.selection_name} split, end of the sweep "
        "trials. Default: the tried setting nearest to the optimizer’s own, or the middle of the grid if it has none; "
        "a dash if its own is outside the tried ones. Best of 2: expected for 2 settings that are drawn at random, "
        "with replacement, from those tried. In parentheses: the rank in the arena. Gain: of the best over the "
        "default; it includes the luck of the selection. A setting that diverged counts as the worst value with which "
        "one finished in the arena."
    )


def _reached(title: str, drawn: str, by_drawn: ByDrawn) -> TextColumn:
    """A column with the value that each arm reaches with a number of drawn settings, and with its rank."""

    def reached(arm: Tuning) -> Tuning | None:
        return by_drawn.get((arm.arena, arm.optimizer, drawn))

    def value(arm: Tuning) -> float | None:
        row = reached(arm)
        return None if row is None else row.value

    def rank(arm: Tuning) -> float | None:
        row = reached(arm)
        return None if row is None else row.rank

    def texts(arms: Sequence[Tuning]) -> list[str]:
        return _with_ranks([reached(arm) for arm in arms])

    return TextColumn(title, str, value=value, more={"rank": rank}, together=texts)


def _with_ranks(rows: Sequence[Tuning | None]) -> list[str]:
    """The value of each row with its rank, or "diverged" if all of its settings diverged."""
    values = column_of_numbers([row.value if row else None for row in rows], 4)
    return [_with_rank(row, value) for row, value in zip(rows, values, strict=True)]


def _with_rank(row: Tuning | None, value: str) -> str:
    """A value with the rank of its row."""
    if row is None:
        return value  # the arm has no such value, and the text is a dash
    text = "diverged" if row.p_diverged == 1 else value
    if row.rank:
        text += f" ({exact(row.rank)})"
    return text


def _diverged(by_drawn: ByDrawn) -> TextColumn:
    """A column with the share of the settings that diverged."""

    def share(arm: Tuning) -> float:
        return _share_diverged(arm, by_drawn)

    def text(arm: Tuning) -> str:
        return percent(share(arm))

    return TextColumn("Diverged", text, value=share)


def _share_diverged(arm: Tuning, by_drawn: ByDrawn) -> float:
    """The probability that a setting drawn at random diverged."""
    return by_drawn[arm.arena, arm.optimizer, "1"].p_diverged
