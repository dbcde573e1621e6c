"""The trends of speed-ups over the size of the model."""

from collections.abc import Mapping

import numpy as np

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.size_trends import SizeTrend, size_trends
from fairbench.analysis.comparison.speedups import Speedup, speedups
from fairbench.common.formatting import number
from fairbench.common.grouping import grouped
from fairbench.report.figures.canvas import finished
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.panel import Panel, draw_line, draw_values, log_axis
from fairbench.report.figures.style import ArmStyle, ArmStyles
from fairbench.suites.schema import Suite

POINTS = 9
"""The number of points of a line over size. On two logarithmic axes the line is straight."""


def draw_size_trends(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of speed-ups over size: a panel for each ladder whose law is known, with a line for each optimizer."""
    suite = analyses.suite
    trends = grouped((row.arena, row) for row in analyses.of(size_trends) if row.speedup is not None)
    if not trends:
        return None
    titles = {ladder: f"{ladder}: {suite.facts(suite.ladders[ladder][0]).title}" for ladder in trends}
    figure, by_ladder = line_panels(titles, styles.values())
    reference = styles[suite.reference].label
    for ladder, panel in by_ladder.items():
        sizes = _sizes(suite, ladder)
        panel.axes.set(xlabel="parameters", ylabel=f"speed-up over {reference}")
        panel.axes.axhline(1, color=LIGHT["edge"], linewidth=1)
        for row in trends[ladder]:
            _draw_trend(panel, row, sizes, styles[row.optimizer])
        for single in analyses.of(speedups):
            if single.arena in sizes:
                _draw_single(panel, single, sizes[single.arena], styles[single.optimizer])
        log_axis(panel.axes, [*sizes.values()])
    caption = (
        f"Speed-up over {suite.reference} by the size of the model. Lines: by the law of all sizes, horizons and "
        "optimizers together. Points: of single sizes and horizons, where they lie within the horizons of "
        f"{suite.reference}."
    )
    return finished(figure, by_ladder, "size_trends", "Speed-up over size", caption)


def _sizes(suite: Suite, ladder: str) -> dict[str, int]:
    """The number of parameters of the model in each arena of a ladder."""
    sizes = {}
    for arena in suite.ladders[ladder]:
        point = suite.arenas[arena].ladder_point
        if point:
            sizes[arena] = point.parameters
    return sizes


def _draw_trend(panel: Panel, row: SizeTrend, sizes: Mapping[str, int], style: ArmStyle) -> None:
    """Draw the line of an optimizer from the smallest to the largest size."""
    assert row.smallest is not None
    assert row.largest is not None
    line_sizes = np.geomspace(min(sizes.values()), max(sizes.values()), POINTS).tolist()
    values = np.geomspace(row.smallest, row.largest, POINTS).tolist()
    texts = []
    for size, value in zip(line_sizes, values, strict=True):
        texts.append(f"{row.optimizer}, {size:.0f} parameters: {number(value, 3)}")
    draw_line(panel, style, line_sizes, values, texts, markersize=0)
    smallest = number(row.smallest, 3)
    largest = number(row.largest, 3)
    panel.said.append(f"{row.optimizer}: {smallest} to {largest}; {row.verdict}.")


def _draw_single(panel: Panel, row: Speedup, size: int, style: ArmStyle) -> None:
    """Draw the speed-up of one size and horizon, if it is known."""
    if row.speedup is None:
        return
    text = f"{row.optimizer}, {size} parameters, {row.steps} steps: {number(row.speedup, 3)}"
    draw_values(panel, style, [size], [row.speedup], [text])
