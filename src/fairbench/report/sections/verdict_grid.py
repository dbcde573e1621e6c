"""The verdicts as a grid. Each cell has a verdict and its gain."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from markupsafe import Markup

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.common.column_formatting import column_of_intervals
from fairbench.common.formatting import exact, interval_name, with_arrow
from fairbench.report.figures.gain_map import SIGNS
from fairbench.report.view import Emphasized, Row, TableView, TextColumn, table_view

ORDER = ("better", "equivalent", "identical", "identical values", "inconclusive", "worse", "diverged", "incomplete")
"""The verdicts in the order of a sorted grid."""


class GridCell(NamedTuple):
    """The content of a cell of a grid.

    Attributes:
        rank: the rank of the cell among all cells, by which a page sorts.
        mark: a class of the cell on the page; empty for none.
    """

    comparison: Comparison
    rank: int
    mark: str = ""


def naming(comparisons: Sequence[Comparison]) -> list[str]:
    """The sides that name a comparison among others: "optimizer", "baseline" or both.

    A side is left out if it is the same in all comparisons; the baseline stays if both sides are the same.
    """
    differing = []
    for side in ("optimizer", "baseline"):
        names = {getattr(comparison, side) for comparison in comparisons}
        if len(names) > 1:
            differing.append(side)
    return differing or ["baseline"]


def verdict_text(comparison: Comparison) -> Emphasized:
    """The verdict of a comparison with its notes, bold if it is a win."""
    return Emphasized(comparison.statement, comparison.is_win)


def verdict_grid(analyses: Analyses) -> TableView:
    """The grid of the verdicts by arena and pair. The rows are the arenas or the pairs, whichever are more."""
    comparisons = analyses.comparisons
    sides = naming(comparisons)
    if len(analyses.suite.pairs) == 1:
        sides = ["optimizer", "baseline"]  # the title of the only column says whose verdicts these are
    arenas = list(dict.fromkeys(comparison.arena for comparison in comparisons))
    pairs = list(dict.fromkeys(_pair(comparison, sides) for comparison in comparisons))
    cells = _ranked_cells(comparisons, sides)
    interval = interval_name(c.ci_level for c in comparisons)
    caption = (
        f"The verdicts in each arena, {analyses.suite.question}: gain with the {interval} that decides, "
        "positive where the optimizer is better than the baseline. Only “better” is a win."
    )

    def pair_column(pair: str) -> TextColumn:
        return grid_column(pair, lambda arena: cells[arena, pair])

    def arena_column(arena: str) -> TextColumn:
        return grid_column(arena, lambda pair: cells[arena, pair])

    about = {arena: _about_arena(analyses, arena) for arena in arenas}
    if len(arenas) >= len(pairs):
        columns = [TextColumn("Arena", str), *map(pair_column, pairs)]
        return replace(table_view("verdicts", caption, columns, rows=arenas), about=about)
    title = "Pair" if len(sides) > 1 else sides[0].capitalize()
    columns = [TextColumn(title, str), *map(arena_column, arenas)]
    return replace(table_view("verdicts", caption, columns, rows=pairs), about=about)


def _about_arena(analyses: Analyses, arena: str) -> str:
    """The metric of an arena, its better direction and the margin: the units of the gains in the grid."""
    plan = analyses.suite.arenas[arena]
    metric = with_arrow(plan.metric, analyses.suite.direction(arena))
    return f"{metric}, margin\N{NO-BREAK SPACE}{exact(plan.margin)}"


def _ranked_cells(comparisons: Sequence[Comparison], sides: Sequence[str]) -> dict[tuple[str, str], GridCell]:
    """The cells by arena and pair. They are ranked by the order of their verdicts, then by falling gain."""
    best_first = sorted(comparisons, key=lambda row: (ORDER.index(row.verdict), -(row.gain or 0)))
    cells = {}
    for rank, comparison in enumerate(best_first):
        cells[comparison.arena, _pair(comparison, sides)] = GridCell(comparison, rank)
    return cells


def _pair(comparison: Comparison, sides: Sequence[str]) -> str:
    """The name of the pair of a comparison, by the sides that differ."""
    return " against ".join(getattr(comparison, side) for side in sides)


def grid_column(title: str, cell_of: Callable[[Row], GridCell]) -> TextColumn:
    """A column of a grid. `cell_of` returns the cell of a row."""

    def number(attribute: str) -> Callable[[Row], float | None]:
        """A function that returns an attribute of the comparison in a row."""
        return lambda row: getattr(cell_of(row).comparison, attribute)

    interval = attrgetter("gain", "ci_low", "ci_high")

    def texts(rows: Sequence[Row]) -> list[Emphasized]:
        cells = [cell_of(row) for row in rows]
        gains = column_of_intervals([interval(cell.comparison) for cell in cells])
        return [_grid_text(cell, gain) for cell, gain in zip(cells, gains, strict=True)]

    return TextColumn(
        title=title,
        show=str,
        more={"gain": number("gain"), "low": number("ci_low"), "high": number("ci_high")},
        together=texts,
    )


def _grid_text(cell: GridCell, gain: str) -> Emphasized:
    """The verdict of a comparison and its gain. On the page, the gain is small. Only the verdict "better" is bold."""
    comparison = cell.comparison
    verdict = verdict_text(comparison)
    sign = SIGNS.get(comparison.verdict, "?")
    html = Markup('<span><span aria-hidden="true">{} </span>{}</span> <small>{}</small>')
    style = comparison.verdict.replace(" ", "-")
    if cell.mark:
        style += f" {cell.mark}"
    return Emphasized(
        text=f"{verdict} {gain}",
        is_win=comparison.is_win,
        bold="better",
        html=html.format(sign, verdict, gain),
        rank=cell.rank,
        style=style,
    )
