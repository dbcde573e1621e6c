"""The verdicts as a grid of arenas and pairs, with which the report begins."""

from collections.abc import Callable, Sequence

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.report.tables.model import Column, Row, TableView, table_view
from fairbench.report.tables.verdict_text import GridText
from fairbench.suites.schema import Suite

ORDER = ("better", "equivalent", "identical", "identical values", "inconclusive", "worse", "diverged", "incomplete")
"""The verdicts as a sorted grid has them."""
NUMBERS = {"advantage": "advantage", "low": "ci_low", "high": "ci_high"}
"""The numbers that a cell shows, by their names."""


def verdict_grid(suite: Suite, comparisons: Sequence[Comparison]) -> TableView:
    """The verdicts by arena and pair; the rows are the arenas or the pairs, whichever are more.

    The place of a cell among all is that of better ones first, then of the larger advantage.
    """
    every = suite.compare == "all"
    best_first = sorted(comparisons, key=lambda c: (ORDER.index(c.verdict), -(c.advantage or 0)))
    found = {(c.arena, _pair(c, every)): (c, place) for place, c in enumerate(best_first)}
    arenas = list(dict.fromkeys(c.arena for c in comparisons))
    pairs = list(dict.fromkeys(_pair(c, every) for c in comparisons))
    by_arena = len(arenas) >= len(pairs)

    def column(title: str) -> Column:
        def at(row: str) -> tuple[Comparison, int]:
            return found[(row, title) if by_arena else (title, row)]

        return grid_column(title, lambda row: at(row)[0], lambda row: GridText(*at(row)))

    head, rows, titles = ("Arena", arenas, pairs) if by_arena else ("Pair" if every else "Baseline", pairs, arenas)
    whole = "Each pair in each arena" if every else f"{suite.reference} in each arena against each baseline"
    caption = (
        f"{whole}: verdict, advantage with its 95% confidence interval, positive where "
        f"{'the first' if every else suite.reference} is better. Only “better” is a win."
    )
    return table_view("verdicts", caption, (Column(head, str), *map(column, titles)), rows)


def _pair(c: Comparison, every: bool) -> str:
    return f"{c.reference} against {c.baseline}" if every else c.baseline


def grid_column(title: str, of: Callable[[Row], Comparison], show: Callable[[Row], GridText]) -> Column:
    """A column of a grid, with the comparison of a row and its text."""

    def number(attribute: str) -> Callable[[Row], float | None]:
        return lambda row: getattr(of(row), attribute)

    return Column(title, show, more={name: number(attribute) for name, attribute in NUMBERS.items()})
