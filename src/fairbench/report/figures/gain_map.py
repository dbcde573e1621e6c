"""The gains of many optimizers in several arenas as one map: a row for each optimizer, a column for each arena."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.common.decimals import Notation, first_decimal
from fairbench.common.formatting import interval, plain
from fairbench.report.figures.canvas import TOP, finished, panels
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import name_rows, width_for
from fairbench.report.figures.panel import Panel, Point, mark
from fairbench.report.figures.style import ArmStyle, short_names
from fairbench.report.figures.text import LABEL_SIZE, TICK_SIZE, inner_width, scale, text_width, without_middle

SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "identical": "=", "identical values": "="}
"""A sign for each verdict, so that verdicts differ without color. Other verdicts have a question mark."""
ROW = 0.2
"""The height in inches of a row."""
TICKS = 0.35
"""The inches below the rows, for the names of the arenas."""
STEPS = (3.0, 10.0)
"""The gains in margins, or losses, from which on a color is darker."""
FARTHEST = 10.0
"""The gain in margins that counts at most for the order of the rows."""
GAP = 0.04
"""The space at each side of a cell, as a share of it."""


def draw_gain_map(
    comparisons: Mapping[str, Sequence[Comparison]], styles: Mapping[str, ArmStyle], title: str, caption: str
) -> Drawing:
    """Draw the gains of each arm, the arm with the largest mean gain in margins first.

    Args:
        comparisons: the comparisons of each arm, by its name, with a gain.
        styles: the style of each arm.
        title: what the gains are.
        caption: the caption of the figure.
    """
    names = sorted(comparisons, key=lambda name: -_mean_in_margins(comparisons[name]))
    arenas = list(dict.fromkeys(comparison.arena for name in comparisons for comparison in comparisons[name]))
    figure, by_arena = panels(
        titles={title: title},
        height=TOP + TICKS + ROW * len(names),
        left=width_for(styles[name].label for name in names),
        bottom=TICKS,
    )
    (panel,) = by_arena.values()
    panel.columns = ("arena", "gain", "low", "high")
    panel.axes.set_xlim(-0.5, len(arenas) - 0.5)
    for row, name in enumerate(names):
        for comparison in comparisons[name]:
            place = (arenas.index(comparison.arena), row)
            _draw_cell(panel, place, comparison, name, styles[name])
    name_rows(panel, [(styles[name].label, styles[name]) for name in names], size=LABEL_SIZE)
    _name_columns(panel, arenas)
    return finished(figure, by_arena, "leaderboard", "Gains", caption)


def _mean_in_margins(comparisons: Sequence[Comparison]) -> float:
    """The mean gain of an arm in margins. A gain counts at most as much as `FARTHEST`."""
    total = 0.0
    for comparison in comparisons:
        total += max(-FARTHEST, min(FARTHEST, _in_margins(comparison)))
    return total / len(comparisons)


def _in_margins(comparison: Comparison) -> float:
    """The gain of a comparison as a multiple of the margin of its arena."""
    assert comparison.gain is not None
    return comparison.gain / (comparison.margin or 1.0)


def _role(comparison: Comparison) -> str:
    """The role of the color of a cell. Only a verdict has a color, the darker the larger the gain is in margins."""
    if comparison.verdict in ("better", "worse"):
        level = 1 + sum(abs(_in_margins(comparison)) >= step for step in STEPS)
        return f"{comparison.verdict}-{level}"
    if SIGNS.get(comparison.verdict) == "=":
        return "equivalent-paper"
    return "paper"


def _draw_cell(panel: Panel, place: tuple[int, int], comparison: Comparison, name: str, style: ArmStyle) -> None:
    """Draw the cell of a comparison at a column and a row: its color, the sign of its verdict, and its gain."""
    axes = panel.axes
    column, row = place
    corner = (column - 0.5 + GAP, row - 0.5 + GAP)
    cell = Rectangle(corner, 1 - 2 * GAP, 1 - 2 * GAP, facecolor=LIGHT[_role(comparison)], linewidth=0)
    text = axes.text(
        column,
        row,
        _cell_text(comparison, width=_cell_width(axes)),
        ha="center",
        va="center_baseline",
        color=LIGHT["ink"] if comparison.verdict in SIGNS else LIGHT["soft"],
        size=TICK_SIZE * scale(),
    )
    mark(panel, style, axes.add_artist(cell), text)
    gain = interval(comparison.gain or 0.0, comparison.ci_low, comparison.ci_high)
    said = f"{name}, {comparison.arena}: {comparison.verdict}, {gain}"
    numbers = (comparison.arena, comparison.gain, comparison.ci_low, comparison.ci_high)
    panel.points.append(Point(x=column, y=row, arm=style.index, numbers=numbers, text=said))
    panel.said.append(f"{said}.")


def _cell_text(comparison: Comparison, width: float) -> str:
    """The sign of a verdict and the gain; only the sign where both are wider than some points."""
    sign = SIGNS.get(comparison.verdict, "?")
    text = f"{sign} {_gain_text(comparison)}"
    return text if text_width(text, TICK_SIZE) <= width else sign


def _gain_text(comparison: Comparison) -> str:
    """A gain with one decimal more than its margin; with two digits where there is no margin."""
    gain = comparison.gain or 0.0
    if not comparison.margin:
        return plain(gain, "+#.2g").replace("-", "−")
    text = Notation(first_decimal(comparison.margin) + 1).text(gain, "+")
    is_zero = not text.strip("+−.0")
    return text[1:] if is_zero else text


def _cell_width(axes: Axes) -> float:
    """The width of a cell in points."""
    low, high = axes.get_xlim()
    return inner_width(axes) * (1 - 2 * GAP) / (high - low)


def _name_columns(panel: Panel, arenas: Sequence[str]) -> None:
    """Write the name of each arena below its column."""
    axes = panel.axes
    width = _cell_width(axes)
    shown = short_names(arenas)
    axes.xaxis.set_major_locator(FixedLocator(range(len(arenas))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([without_middle(shown[arena], width, TICK_SIZE) for arena in arenas])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
