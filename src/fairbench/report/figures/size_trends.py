"""The speed-up of each optimizer over the size of the model, by the law of a ladder and as measured."""

import math

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.size_trends import SizeTrend, size_trends
from fairbench.analysis.comparison.speedups import speedups
from fairbench.report.figures.canvas import Drawing, finished, panels
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.labels import draw_legend, label_ends, label_space, lines_height
from fairbench.report.figures.panel import Panel, draw_line, draw_values, log_axis
from fairbench.report.figures.style import ArmStyles
from fairbench.report.tables.numbers import three

POINTS = 9
"""The points of a line, which is straight on two logarithmic axes."""


def draw_size_trends(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """A panel for each ladder whose law is known, with a line for each optimizer."""
    suite = analyses.suite
    known = suite.ladders
    trends: dict[str, list[SizeTrend]] = {}
    for row in analyses.of(size_trends):
        if row.speedup is not None:
            trends.setdefault(row.arena, []).append(row)
    if not trends:
        return None
    titles = {name: f"{name}: {suite.facts(known[name][0]).title}" for name in trends}
    figure, by_ladder = panels(titles, lines_height(len(styles)), **label_space(styles.values()))
    draw_legend(figure, styles.values())
    for name, panel in by_ladder.items():
        sizes = {x: plan.cell.parameters for x in known[name] if (plan := suite.arenas[x]).cell}
        panel.axes.set_xlabel("parameters")
        panel.axes.set_ylabel(f"speed-up over {styles[suite.reference].label}")
        panel.axes.axhline(1, color=LIGHT["edge"], linewidth=1)
        ends = {
            styles[row.optimizer].end: (styles[row.optimizer], _draw(panel, row, sizes, styles)) for row in trends[name]
        }
        for single in analyses.of(speedups):
            if single.arena in sizes and single.speedup is not None:
                size, style = sizes[single.arena], styles[single.optimizer]
                text = f"{single.optimizer}, {size} parameters, {single.steps} steps: {three(single.speedup)}"
                draw_values(panel, style, [size], [single.speedup], [text])
        log_axis(panel.axes, [*sizes.values()])
        label_ends(panel, ends)
    caption = (
        f"Speed-up over {suite.reference} by the size of the model. Lines: by the law of all sizes, horizons and "
        "optimizers together. Points: of single sizes and horizons, where they lie within the horizons of "
        f"{suite.reference}."
    )
    return finished(figure, by_ladder, "size_trends", "Speed-up over size", caption)


def _draw(panel: Panel, row: SizeTrend, sizes: dict[str, int], styles: ArmStyles) -> tuple[float, float]:
    """Draw the line of an optimizer; returns its last point."""
    assert row.smallest is not None
    assert row.largest is not None
    low, high, share = math.log(min(sizes.values())), math.log(max(sizes.values())), POINTS - 1
    along = [i / share for i in range(POINTS)]
    at = [math.exp(low + x * (high - low)) for x in along]
    values = [row.smallest * (row.largest / row.smallest) ** x for x in along]
    texts = [f"{row.optimizer}, {size:.0f} parameters: {three(value)}" for size, value in zip(at, values, strict=True)]
    draw_line(panel, styles[row.optimizer], at, values, texts, markersize=0)
    panel.summary.append(f"{row.optimizer}: {three(row.smallest)} to {three(row.largest)}; {row.verdict}.")
    return at[-1], values[-1]
