"""The time of a training step by its phases."""

from collections.abc import Sequence

from matplotlib.patches import Patch, Rectangle

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import STEP_PHASES, Cost, costs
from fairbench.common.formatting import number
from fairbench.report.figures.canvas import TOP, finished, panels, titles
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import name_rows, width_for
from fairbench.report.figures.panel import Panel, Point, mark, moved
from fairbench.report.figures.style import ArmStyle, ArmStyles
from fairbench.report.figures.text import POINTS_PER_INCH, inner_width, panel_width, text_width

PHASE_COLORS = [LIGHT[f"phase-{phase}"] for phase in STEP_PHASES]
NARROW = 4
"""The width of a panel in inches below which the legend has two lines."""
BAR = 0.62
"""The height of a bar, as a share of the height of its row."""
PHASES_CAPTION = (
    "Step time: median milliseconds of a training step over the timing trials, by phase; step is clipping, "
    "optimizer and schedule. Forward and backward are the same work for every optimizer: where they differ, the "
    "machine was busy with other work."
)
PHASES_FACTOR = " The factor is that of the whole training step over AdamW's, including that noise."
PROGRAM_CAPTION = (
    "Step time: median milliseconds of a step over the timing trials: the wall time of the program, its start "
    "included, over its steps."
)
PROGRAM_FACTOR = " The factor is that of the step over AdamW's."


def draw_step_time(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of step times: a panel for each arena, with a bar for each optimizer.

    A bar has a part for each phase, unless the optimizer is that of a training program. None without any time.
    """
    suite = analyses.suite
    known = [cost for cost in analyses.of(costs) if cost.train_ms is not None]
    arenas = [arena for arena in suite.arenas if any(cost.arena == arena for cost in known)]
    if not arenas:
        return None
    left = width_for(style.label for style in styles.values())
    has_phases = not all(cost.is_of_program for cost in known)
    caption = PROGRAM_CAPTION
    factor = PROGRAM_FACTOR
    bottom = 0.65
    if has_phases:
        caption = PHASES_CAPTION
        factor = PHASES_FACTOR
        bottom = _room_for_legend()
    height = TOP + bottom + 0.15 + 0.33 * len(suite.optimizers)
    figure, by_arena = panels(titles(suite, arenas), height, left=left, bottom=bottom)
    for arena, panel in by_arena.items():
        panel.axes.set_xlabel("milliseconds per training step")
        panel.columns = ("phase", "milliseconds per training step")
        _draw_bars(panel, [cost for cost in known if cost.arena == arena], styles)
        if has_phases:
            _draw_legend(panel, left, bottom, height)
    if "AdamW" in suite.optimizers:
        caption += factor
    return finished(figure, by_arena, "step_time", "Step time", caption)


def _room_for_legend() -> float:
    """The margin below a panel with a legend, in inches."""
    if panel_width() < NARROW:
        return 1.3
    return 0.95


def _draw_legend(panel: Panel, left: float, bottom: float, height: float) -> None:
    """Draw a legend of the phases in the middle below a panel. The height and margins of the panel are in inches."""
    below = -(bottom - 0.05) / (height - TOP - bottom)
    middle = (panel.box.width / 2 - POINTS_PER_INCH * left) / inner_width(panel.axes)
    panel.axes.legend(
        handles=[Patch(color=color) for color in PHASE_COLORS],
        labels=STEP_PHASES,
        loc="lower center",
        bbox_to_anchor=(middle, below),
        ncols=2 if panel_width() < NARROW else 4,
        columnspacing=1.2,
    )


def _draw_bars(panel: Panel, costs: Sequence[Cost], styles: ArmStyles) -> None:
    """Draw a bar for each optimizer, the first one on top."""
    adamw_ms = None
    for cost in costs:
        if cost.optimizer == "AdamW":
            adamw_ms = cost.train_ms
    limit = 0.0
    for row, cost in enumerate(costs):
        style = styles[cost.optimizer]
        end = _draw_bar(panel, row, cost, style)
        text = _time_text(cost, adamw_ms)
        _draw_time(panel, row, end, text, style)
        # the text after the bar takes a share of the panel's width, and the axis is longer by that
        share_of_text = (text_width(text) + 8) / inner_width(panel.axes)
        limit = max(limit, end / max(1 - share_of_text, 0.2))
        panel.said.append(f"{cost.optimizer}: {number(cost.train_ms, 3)} ms.")
    name_rows(panel, [(styles[cost.optimizer].label, styles[cost.optimizer]) for cost in costs], size=10)
    panel.axes.set_xlim(0, limit or 1.0)


def _draw_bar(panel: Panel, row: int, cost: Cost, style: ArmStyle) -> float:
    """Draw the phases of an optimizer as a bar from left to right. Returns the end of the bar in milliseconds."""
    left = 0.0
    for phase, color in zip(STEP_PHASES, PHASE_COLORS, strict=True):
        if cost.is_of_program and phase != "step":
            continue
        width = getattr(cost, f"{phase}_ms")
        bar = Rectangle((left, row - BAR / 2), width, BAR, facecolor=color, linewidth=0)
        mark(panel, style, panel.axes.add_artist(bar))
        text = f"{cost.optimizer}, {phase}: {number(width, 3)} ms"
        middle = left + width / 2
        panel.points.append(Point(x=middle, y=row, arm=style.index, numbers=(phase, width), text=text))
        left += width
    return left


def _time_text(cost: Cost, adamw_ms: float | None) -> str:
    """The time of a step, and its factor over AdamW's."""
    text = f"{number(cost.train_ms, 3)} ms"
    if adamw_ms and cost.train_ms and cost.optimizer != "AdamW":
        text += f", {cost.train_ms / adamw_ms:.2f}×"
    return text


def _draw_time(panel: Panel, row: int, end: float, text: str, style: ArmStyle) -> None:
    """Write the time of a step after its bar."""
    after = moved(panel.axes.transData, panel.axes, points=6)
    mark(panel, style, panel.axes.text(end, row, text, transform=after, va="center"))
