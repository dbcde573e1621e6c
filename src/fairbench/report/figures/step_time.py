"""The time of a training step by its phases."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from matplotlib.patches import Patch, Rectangle

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import STEP_PHASES, Cost, costs
from fairbench.common.formatting import number
from fairbench.report.figures.canvas import TOP, Drawing, finished, panels, titles
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.labels import moved, name_rows, width_for
from fairbench.report.figures.panel import Panel, Point, mark
from fairbench.report.figures.style import ArmStyles
from fairbench.report.figures.text import POINTS_PER_INCH, inner_width, panel_width, text_width

PHASE_COLORS = [LIGHT[f"phase-{phase}"] for phase in STEP_PHASES]


def draw_step_time(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """A bar for each optimizer, with a part for each phase."""
    suite, known = analyses.suite, analyses.of(costs)
    arenas = [arena for arena in suite.arenas if any(cost.arena == arena for cost in known)]
    if not arenas:
        return None
    narrow = panel_width() < 4
    left, bottom = width_for(style.label for style in styles.values()), 1.3 if narrow else 0.95
    height = TOP + bottom + 0.15 + 0.33 * len(suite.optimizers)
    figure, by_arena = panels(titles(suite, arenas), height, left, bottom=bottom)
    for arena, panel in by_arena.items():
        panel.axes.set_xlabel("milliseconds per training step")
        panel.columns = "phase", "milliseconds per training step"
        _draw_bars(panel, [cost for cost in known if cost.arena == arena], styles)
        below = -(bottom - 0.05) / (height - TOP - bottom)
        middle = (panel.box.width / 2 - POINTS_PER_INCH * left) / inner_width(panel.axes)
        handles = [Patch(color=color) for color in PHASE_COLORS]
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (middle, below)}
        panel.axes.legend(handles, STEP_PHASES, ncols=2 if narrow else 4, columnspacing=1.2, **place)
    caption = (
        "Step time: median milliseconds of a training step by phase; step is clipping, optimizer and schedule. Forward "
        "and backward are the same work for every optimizer: where they differ, the machine was busy with other work."
    )
    if "AdamW" in suite.optimizers:
        caption += " The factor is that of the whole training step over AdamW's, including that noise."
    return finished(figure, by_arena, "step_time", "Step time", caption)


def _draw_bars(panel: Panel, costs: Sequence[Cost], styles: ArmStyles) -> None:
    """One bar for each optimizer, the first on top."""
    axes, limit = panel.axes, 0.0
    after = moved(axes.transData, axes, 6)
    adamw = next((cost.train_ms for cost in costs if cost.optimizer == "AdamW"), None)
    for row, cost in enumerate(costs):
        arm, widths = styles[cost.optimizer], [getattr(cost, f"{phase}_ms") for phase in STEP_PHASES]
        *lefts, end = accumulate(widths, initial=0.0)
        edges = zip(lefts, widths, PHASE_COLORS, strict=True)
        for left, width, color in edges:
            bar = Rectangle((left, row - 0.31), width, 0.62, facecolor=color, linewidth=0)
            mark(panel, arm, axes.add_artist(bar))
        for phase, width, left in zip(STEP_PHASES, widths, lefts, strict=True):
            text = f"{cost.optimizer}, {phase}: {number(width, 3)} ms"
            panel.points.append(Point(left + width / 2, row, arm.index, (phase, width), text))
        time = number(cost.train_ms, 3) + " ms"
        factor = f", {cost.train_ms / adamw:.2f}×" if adamw and cost.optimizer != "AdamW" else ""
        mark(panel, arm, axes.text(end, row, time + factor, transform=after, va="center"))
        space = (text_width(time + factor) + 8) / inner_width(axes)
        limit = max(limit, end / max(1 - space, 0.2))
        panel.said.append(f"{cost.optimizer}: {time}.")
    name_rows(panel, [(styles[cost.optimizer].label, styles[cost.optimizer]) for cost in costs], size=10)
    axes.set_xlim(0, limit or 1.0)
