"""The verdicts as a grid, whose cells have a verdict and its gain."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from markupsafe import Markup

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.common.formatting import column_of_intervals
from fairbench.report.view import Emphasized, Row, TableView, TextColumn, table_view

ORDER = ("better", "equivalent", "identical", "identical values", "inconclusive", "worse", "diverged", "incomplete")
"""The verdicts as a sorted grid has them."""
SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "identical": "=", "identical values": "="}
"""A sign for each verdict, so that they differ without color; the remaining ones get a question mark."""


class GridCell(NamedTuple):
    """What a cell of a grid shows.

    Attributes:
        rank: of the cell among all, by which a page sorts it.
        mark: a class of the cell on the page; empty for none.
    """

    comparison: Comparison
    rank: int
    mark: str = ""


def naming(comparisons: Sequence[Comparison]) -> list[str]:
    """What names a comparison among others: its optimizer, its baseline or both, but not one that all of them share."""
    differing = []
    for side in ("optimizer", "baseline"):
        names = {getattr(comparison, side) for comparison in comparisons}
        if len(names) > 1:
            differing.append(side)
    return differing or ["baseline"]


def verdict_text(comparison: Comparison) -> Emphasized:
    """The verdict of a comparison with its notes."""
    return Emphasized(comparison.statement, comparison.is_win)


def verdict_grid(analyses: Analyses) -> TableView:
    """The verdicts by arena and pair; the rows are the arenas or the pairs, whichever are more."""
    comparisons = analyses.comparisons
    sides = naming(comparisons)
    arenas = list(dict.fromkeys(comparison.arena for comparison in comparisons))
    pairs = list(dict.fromkeys(_pair(comparison, sides) for comparison in comparisons))
    cells = _ranked_cells(comparisons, sides)
    caption = (
        f"The verdicts in each arena, {analyses.suite.question}: gain with its 95% confidence interval, positive where "
        "the optimizer is better than the baseline. Only “better” is a win."
    )

    def pair_column(pair: str) -> TextColumn:
        return grid_column(pair, lambda arena: cells[arena, pair])

    def arena_column(arena: str) -> TextColumn:
        return grid_column(arena, lambda pair: cells[arena, pair])

    if len(arenas) >= len(pairs):
        columns = [TextColumn("Arena", str), *map(pair_column, pairs)]
        return table_view("verdicts", caption, columns, rows=arenas)
    what = "Pair" if len(sides) > 1 else sides[0].capitalize()
    columns = [TextColumn(what, str), *map(arena_column, arenas)]
    return table_view("verdicts", caption, columns, rows=pairs)


def _ranked_cells(comparisons: Sequence[Comparison], sides: Sequence[str]) -> dict[tuple[str, str], GridCell]:
    """The cells by arena and pair. Better ones rank first, then those with a larger gain."""
    best_first = sorted(comparisons, key=lambda c: (ORDER.index(c.verdict), -(c.gain or 0)))
    cells = {}
    for rank, comparison in enumerate(best_first):
        cells[comparison.arena, _pair(comparison, sides)] = GridCell(comparison, rank)
    return cells


def _pair(comparison: Comparison, sides: Sequence[str]) -> str:
    return " against ".join(getattr(comparison, side) for side in sides)


def grid_column(title: str, cell_of: Callable[[Row], GridCell]) -> TextColumn:
    """A column of a grid; `cell_of` returns the cell of a row."""

    def number(attribute: str) -> Callable[[Row], float | None]:
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
    """The verdict of a comparison and its gain, in a page in small text, of which only the verdict is bold."""
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
