"""The figures: learning curves, learning-rate sensitivity and step time, as PNG and SVG, the same bytes every time."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fairbench.analysis.results import ArmResults, Results
from fairbench.arenas import ARENAS
from fairbench.report.tables import STEP_PHASES, Cost, costs

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 9,
    "axes.labelcolor": "#444444",
    "axes.edgecolor": "#999999",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e8e8e8",
    "grid.linewidth": 0.8,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "svg.hashsalt": "fairbench",
    "savefig.dpi": 160,
}

REFERENCE_COLOR = "#d55e00"
BASELINE_COLORS = ("#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Okabe and Ito's colours, which the colour-blind can tell apart."""

PHASE_COLORS = {"data": "#c9c9c9", "forward": "#92b4d4", "backward": "#4a7fb5", "step": "#f0a04b"}
PANEL_WIDTH, PANEL_HEIGHT = 5.4, 3.5
LABEL_GAP = 0.075
"""Least distance between two labels, as a share of the panel's height."""


@dataclass(frozen=True)
class Drawing:
    """A finished figure.

    Attributes:
        name: file name without ending.
        caption: what it shows, in a sentence.
        png: the picture as PNG.
        svg: the picture as SVG.
    """

    name: str
    caption: str
    png: bytes
    svg: str


def draw_figures(results: Results) -> list[Drawing]:
    """All figures for which there is something to draw."""
    reference = results.study.suite.reference
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever a user's matplotlibrc says
        matplotlib.rcParams.update(STYLE)
        return [*_learning_curves(results, reference), *_lr_sensitivity(results, reference), *_step_time(results)]


def colors(results: Results) -> dict[str, str]:
    """The colour of each optimizer, the same in all figures."""
    suite = results.study.suite
    baselines = [name for name in suite.optimizers if name != suite.reference]
    cycle = {name: BASELINE_COLORS[i % len(BASELINE_COLORS)] for i, name in enumerate(baselines)}
    return {suite.reference: REFERENCE_COLOR, **cycle}


Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One optimizer's line in a panel.

    Attributes:
        optimizer: name of the optimizer.
        label: what stands at its end.
        points: where it goes.
        band: low and high at each point, empty for no band.
        off: abscissas of points that diverged.
        selected: the point that was selected, if any.
    """

    optimizer: str
    label: str
    points: Sequence[Point]
    band: Sequence[Point] = ()
    off: Sequence[float] = ()
    selected: Point | None = None


def _learning_curves(results: Results, reference: str) -> list[Drawing]:
    def line(arm: ArmResults, metric: str) -> Line:
        curves = [{e["step"]: e["val"][metric] for e in run.result["evaluations"]} for run in arm.final if run.result]
        shared = sorted(set.intersection(*map(set, curves))) if curves else []
        values = [[curve[step] for curve in curves] for step in shared]
        band = [(fmean(v) - _std(v), fmean(v) + _std(v)) for v in values]
        lost = arm.count("diverged")
        label = f"{arm.optimizer} ({lost}/{len(arm.final)} diverged)" if lost else arm.optimizer
        return Line(arm.optimizer, label, [(s, fmean(v)) for s, v in zip(shared, values, strict=True)], band)

    caption = (
        f"Learning curves: mean and standard deviation over the final seeds. The wide line is {reference}'s. "
        "A line ends where the first of its seeds diverged."
    )

    def finish(axes: Axes, lines: Sequence[Line]) -> None:
        axes.set_xlabel("training step")
        _label_ends(axes, [item for item in lines if item.points], colors(results))

    return _line_figure(results, "learning_curves", caption, line, finish, right_margin=1.15)


def _std(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _lr_sensitivity(results: Results, reference: str) -> list[Drawing]:
    def line(arm: ArmResults, metric: str) -> Line:
        points: list[Point] = []
        off = []
        for lr in arm.rates:
            runs = [run for run in arm.sweep if run.lr == lr]
            values = [value for run in runs if (value := run.metric("val", metric)) is not None]
            if len(values) == len(runs):
                points.append((lr, fmean(values)))
            elif any(run.status == "diverged" for run in runs):
                off.append(lr)
        selected = next((point for point in points if point[0] == arm.lr), None)
        return Line(arm.optimizer, arm.optimizer, points, off=off, selected=selected)

    def finish(axes: Axes, lines: Sequence[Line]) -> None:
        axes.set_xscale("log")
        axes.set_xlabel("learning rate")
        worst = 0.0 if axes.get_ylabel().endswith("(higher is better)") else 1.0
        for item in lines:
            style: dict[str, Any] = {"color": palette[item.optimizer], "transform": axes.get_xaxis_transform()}
            axes.plot(item.off, [worst] * len(item.off), "x", clip_on=False, **CROSS, **style)

    caption = (
        "Learning-rate sensitivity: validation metric at the end of each sweep trial. "
        f"Rings mark the selected rates, crosses rates that diverged; the wide line is {reference}'s."
    )
    found = _line_figure(results, "lr_sensitivity", caption, line, finish)


def _line_figure(
    results: Results,
    name: str,
    caption: str,
    line: Callable[[ArmResults, str], Line],
    finish: Callable[[Axes], object],
) -> list[Drawing]:
    """One panel for each arena that has something to show, a line for each optimizer."""
    suite, palette = results.study.suite, colors(results)
    panels = {arena: [line(arm, plan.metric) for arm in results.of(arena)] for arena, plan in suite.arenas.items()}
    panels = {arena: lines for arena, lines in panels.items() if any(item.points for item in lines)}
    if not panels:
        return []
    figure, grid = _panels(len(panels), right_margin=1.15)
    for axes, (arena, lines) in zip(grid, panels.items(), strict=True):
        metric = suite.arenas[arena].metric
        better = "lower" if ARENAS[arena].metrics[metric] == "min" else "higher"
        axes.set_title(ARENAS[arena].title)
        axes.set_ylabel(f"validation {metric}  ({better} is better)")
        finish(axes)
        for item in sorted(lines, key=lambda item: item.optimizer != suite.reference):
            _draw_line(axes, item, palette[item.optimizer], wide=item.optimizer == suite.reference)
        axes.margins(y=0.08)
        worst = 1.0 if better == "lower" else 0.0
        for item in lines:
            height = [worst] * len(item.off)
            style = {"color": palette[item.optimizer], "transform": axes.get_xaxis_transform(), "clip_on": False}
            axes.plot(item.off, height, "x", markersize=8, markeredgewidth=2, **style)  # type: ignore[arg-type]
        _label_ends(axes, [item for item in lines if item.points], palette)
    return [_finished(figure, name, caption)]


def _draw_line(axes: Axes, line: Line, color: str, wide: bool) -> None:
    """The reference is wide and lies below, so that a line that coincides with it still shows both."""
    x, y = zip(*line.points, strict=True) if line.points else ((), ())
    marker = "" if line.band else "o"
    axes.plot(x, y, color=color, linewidth=4.5 if wide else 1.6, marker=marker, markersize=4, alpha=0.75 if wide else 1)
    if line.band:
        low, high = zip(*line.band, strict=True)
        axes.fill_between(x, low, high, color=color, alpha=0.16, linewidth=0)
    if line.selected:
        size = 13 if wide else 10
        axes.plot(*line.selected, "o", markersize=size, markerfacecolor="none", markeredgecolor=color, markeredgewidth=1.8)


def _label_ends(axes: Axes, lines: Sequence[Line], palette: dict[str, str]) -> None:
    """Write each optimizer's name beside the end of its line, moved apart where they would overlap."""
    to_panel = axes.transData + axes.transAxes.inverted()
    ends = sorted((float(to_panel.transform(line.points[-1])[1]), i) for i, line in enumerate(lines))
    heights = _spread([height for height, _ in ends], LABEL_GAP)
    for (_, i), height in zip(ends, heights, strict=True):
        color = palette[lines[i].optimizer]
        axes.annotate(
            lines[i].label,
            xy=lines[i].points[-1],
            xytext=(1.06, height),
            textcoords="axes fraction",
            color=color,
            fontweight="bold",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.8, "shrinkA": 2, "shrinkB": 2},
        )


def _spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move rising heights as little as needed so that neighbours are at least a gap apart."""
    clusters: list[tuple[float, int]] = []  # centre and size; touching clusters merge around their common centre
    for height in heights:
        clusters.append((height, 1))
        while len(clusters) > 1 and _touch(clusters[-2], clusters[-1], gap):
            (c1, n1), (c2, n2) = clusters[-2:]
            clusters[-2:] = [((c1 * n1 + c2 * n2) / (n1 + n2), n1 + n2)]
    return [centre + (i - (size - 1) / 2) * gap for centre, size in clusters for i in range(size)]


def _touch(below: tuple[float, int], above: tuple[float, int], gap: float) -> bool:
    return above[0] - below[0] < gap * (below[1] + above[1]) / 2


def _step_time(results: Results) -> list[Drawing]:
    found = costs(results)
    arenas = [arena for arena in results.study.suite.arenas if any(cost.arena == arena for cost in found)]
    if not arenas:
        return []
    figure, grid = _panels(len(arenas), right_margin=0.3, panel_height=2.5)
    for axes, arena in zip(grid, arenas, strict=True):
        axes.set_title(ARENAS[arena].title)
        axes.set_xlabel("milliseconds per training step")
        _stack(axes, [cost for cost in found if cost.arena == arena], colors(results))
    handles = [Patch(color=PHASE_COLORS[phase]) for phase in STEP_PHASES]
    figure.legend(handles, STEP_PHASES, loc="upper center", ncols=len(STEP_PHASES), frameon=False)
    caption = (
        "Step time: median milliseconds of a training step by phase (step: clipping, optimizer and schedule), "
        "and the whole relative to AdamW where AdamW took part."
    )
    return [_finished(figure, "step_time", caption)]


def _stack(axes: Axes, found: Sequence[Cost], palette: dict[str, str]) -> None:
    """One bar for each optimizer, the first on top."""
    adamw = next((cost.train_ms for cost in found if cost.optimizer == "AdamW"), None)
    for row, cost in enumerate(found):
        left = 0.0
        for phase in STEP_PHASES:
            width = getattr(cost, f"{phase}_ms")
            axes.barh(row, width, left=left, height=0.62, color=PHASE_COLORS[phase])
            left += width
        relative = f"   {cost.train_ms / adamw:.2f}× AdamW" if adamw and cost.optimizer != "AdamW" else ""
        axes.text(left, row, f"  {cost.train_ms:.3g} ms{relative}", va="center", color="#222222")
    axes.set_yticks(range(len(found)), [cost.optimizer for cost in found])
    for tick, cost in zip(axes.get_yticklabels(), found, strict=True):
        tick.set(color=palette[cost.optimizer], fontweight="bold")
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.55 * max(cost.train_ms for cost in found))
    axes.xaxis.set_major_locator(MaxNLocator(6))


def _panels(count: int, right_margin: float, panel_height: float = PANEL_HEIGHT) -> tuple[Figure, list[Axes]]:
    """A figure with up to two panels in a row; margins in inches, so that labels have room at every size."""
    columns = min(count, 2)
    rows = -(-count // columns)
    left, top, bottom = 0.75, 0.55, 0.6
    width, height = columns * PANEL_WIDTH, rows * panel_height + 0.1
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = []
    for i in range(count):
        row, column = divmod(i, columns)
        x = column * PANEL_WIDTH + left
        y = height - (row + 1) * panel_height + bottom - 0.1
        box = (x, y, PANEL_WIDTH - left - right_margin, panel_height - top - bottom)
        axes.append(figure.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height)))
    return figure, axes


def _finished(figure: Figure, name: str, caption: str) -> Drawing:
    """Both formats, without the date and version that would make each run's bytes differ."""
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    figure.savefig(svg, format="svg", metadata={"Date": None})
    return Drawing(name, caption, png.getvalue(), svg.getvalue())
