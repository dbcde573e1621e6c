"""The figures: learning curves, learning-rate sensitivity, step time, and those of causes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fairbench.analysis.results import ArmResults, Results
from fairbench.report.canvas import (
    TOP,
    Drawing,
    Look,
    Panel,
    draw_band,
    draw_line,
    finished,
    log_axis,
    looks,
    mark,
    panels,
    short,
    style,
)
from fairbench.report.cause_figures import draw_causes, draw_mechanism, draw_shocks
from fairbench.report.colors import LIGHT
from fairbench.report.curves import Curve, curve
from fairbench.report.labels import height_for, label_ends, room_for
from fairbench.report.numbers import number, rate
from fairbench.report.tables import STEP_PHASES, Cost, costs
from fairbench.report.titles import titles

RING: dict[str, Any] = {"marker": "o", "linestyle": "", "markerfacecolor": "none", "markeredgewidth": 1.8}
CROSS: dict[str, Any] = {"marker": "x", "linestyle": "", "markersize": 8, "markeredgewidth": 2, "clip_on": False}
GRID_EDGE: dict[str, Any] = {"color": LIGHT["soft"], "linewidth": 1.1, "linestyle": (0, (1, 3)), "zorder": 0.5}


def draw_figures(results: Results) -> tuple[list[Drawing], dict[str, str]]:
    """All figures for which there is something to draw, and of those that fail the reason, by their names."""
    drawn, failed = [], {}
    for name, draw in FIGURES.items():
        try:
            with style():
                drawing = draw(results)
        except Exception as error:  # whatever it is, the tables and the other figures say what they say
            failed[name] = f"{type(error).__name__}: {error}"
        else:
            drawn += [] if drawing is None else [drawing]
    return drawn, failed


def _reference_first(results: Results, arena: str) -> list[ArmResults]:
    return sorted(results.of(arena), key=lambda arm: arm.optimizer != results.study.suite.reference)


def _direction(results: Results, arena: str) -> tuple[str, bool]:
    """Label of a validation axis, and whether higher is better."""
    metric = results.study.suite.arenas[arena].metric
    maximize = results.study.suite.facts(arena).metrics[metric] == "max"
    return f"validation {metric} ({'higher' if maximize else 'lower'} is better)", maximize


def _learning_curves(results: Results, logarithmic: bool = False) -> Drawing | None:
    suite = results.study.suite
    arenas = [arena for arena in suite.arenas if any(curve(results, arm) for arm in results.of(arena))]
    if not arenas:
        return None
    right = room_for(_label(arm) for arm in results.arms)
    figure, grid = panels(titles(results, arenas), height_for(len(suite.optimizers)), right=right)
    for arena, panel in grid.items():
        arms = _reference_first(results, arena)
        curves = [(arm, course) for arm in arms if (course := curve(results, arm))]
        label, maximize = _direction(results, arena)
        panel.axes.set_xlabel("training step" + _no_line(arms, [arm for arm, _ in curves]))
        panel.axes.set_ylabel(label)
        if logarithmic:
            log_axis(panel.axes, "x", [step for _, course in curves for step, _, _ in course])
            lows = [mean - std for _, course in curves for _, mean, std in course]
            if not maximize and min(lows) > 0:
                log_axis(panel.axes, "y", [*lows, *(mean for _, course in curves for _, mean, _ in course)])
        _draw_curves(panel, curves, looks(suite))
    caption = (
        "Learning curves: mean and standard deviation over the final seeds, validation split. "
        f"The wide line is {suite.reference}. A line ends where the first of its seeds diverged. "
        "†: seeds that finished, where not all did."
    )
    if logarithmic:
        caption += " Steps, and values of which lower is better, are on logarithmic axes."
    name, title = ("learning_curves_log", " on logarithmic axes") if logarithmic else ("learning_curves", "")
    return finished(figure, grid, name, f"Learning curves{title}", caption)


def _draw_curves(panel: Panel, curves: Sequence[tuple[ArmResults, Curve]], look: Mapping[str, Look]) -> None:
    for arm, course in curves:
        steps, mean, std = zip(*course, strict=True)
        said = [f"{arm.optimizer}, step {step}: {number(m)} ± {number(s, 2)}" for step, m, s in course]
        draw_line(panel, look[arm.optimizer], steps, mean, said)
        low, high = ([m + sign * s for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
        draw_band(panel, look[arm.optimizer], steps, low, high)
        panel.summary.append(f"{said[-1]}.")
    label_ends(panel, {_label(arm): (look[arm.optimizer], course[-1][:2]) for arm, course in curves})


def _label(arm: ArmResults) -> str:
    finished = arm.count("finished")
    name = short(arm.optimizer)
    return name if finished == len(arm.final) else f"{name} †{finished}/{len(arm.final)}"


def _no_line(arms: Sequence[ArmResults], drawn: Sequence[ArmResults]) -> str:
    return "".join(f"\nno line: {_label(arm)}" for arm in arms if arm not in drawn)


def _lr_sensitivity(results: Results) -> Drawing | None:
    suite = results.study.suite
    arenas = [arena for arena in suite.arenas if any(run.result for arm in results.of(arena) for run in arm.sweep)]
    if not arenas:
        return None
    look, right = looks(suite), room_for(map(short, suite.optimizers))
    figure, grid = panels(titles(results, arenas), height_for(len(look)), right=right)
    for arena, panel in grid.items():
        label, maximize = _direction(results, arena)
        arms = _reference_first(results, arena)
        means = {arm.optimizer: _rates(results, arm) for arm in arms}
        panel.axes.set_xlabel("learning rate" + _no_line(arms, [arm for arm in arms if means[arm.optimizer]]))
        panel.axes.set_ylabel(label)
        log_axis(panel.axes, "x", [rate for arm in arms for rate in arm.rates])
        panel.axes.margins(y=0.1)  # for the rings
        for arm in arms:
            _draw_rates(panel, arm, look[arm.optimizer], means[arm.optimizer], worst=0.0 if maximize else 1.0)
        for edge in (suite.sweep.lr_min, suite.sweep.lr_max):
            panel.axes.axvline(edge, **GRID_EDGE)
        ends = {short(name): (look[name], max(values.items())) for name, values in means.items() if values}
        label_ends(panel, ends)
    caption = (
        "Learning-rate sensitivity: validation metric at the end of the sweep trials. Rings mark the selected rates, "
        "crosses at the panel's edge rates that diverged. Dotted lines are the edges of the grid that every optimizer "
        f"searches; what lies beyond them extends it. The wide line is {suite.reference}."
    )
    return finished(figure, grid, "lr_sensitivity", "Learning-rate sensitivity", caption)


def _rates(results: Results, arm: ArmResults) -> dict[float, float]:
    """The mean over the sweep's seeds at each rate at which all of them finished."""
    metric = results.study.suite.arenas[arm.arena].metric
    same_decay = [run for run in arm.sweep if arm.weight_decay in (None, run.weight_decay)]
    runs = {lr: [run.metric("val", metric) for run in same_decay if run.lr == lr] for lr in arm.rates}
    complete = {
        lr: [value for value in values if value is not None] for lr, values in runs.items() if None not in values
    }
    return {lr: fmean(values) for lr, values in complete.items()}


def _draw_rates(panel: Panel, arm: ArmResults, look: Look, means: Mapping[float, float], worst: float) -> None:
    """An arm's line, a ring at its selected rate, crosses where trials diverged."""
    chosen = {arm.lr: ", selected"}
    said = {lr: f"{arm.optimizer}, rate {rate(lr)}: {number(mean)}{chosen.get(lr, '')}" for lr, mean in means.items()}
    draw_line(panel, look, list(means), list(means.values()), list(said.values()))
    if arm.lr is not None and arm.lr in means:
        size = 14 if look.wide else 10
        mark(panel, look, *panel.axes.plot(arm.lr, means[arm.lr], markeredgecolor=look.color, markersize=size, **RING))
        panel.summary.append(f"{said[arm.lr]}.")
    lost = sorted({run.lr for run in arm.sweep if run.status == "diverged" and run.lr})
    height = [worst] * len(lost)
    mark(
        panel,
        look,
        *panel.axes.plot(lost, height, color=look.color, transform=panel.axes.get_xaxis_transform(), **CROSS),
    )


def _step_time(results: Results) -> Drawing | None:
    suite, found = results.study.suite, costs(results)
    arenas = [arena for arena in suite.arenas if any(cost.arena == arena for cost in found)]
    if not arenas:
        return None
    left, bottom = room_for(map(short, suite.optimizers)), 0.95
    height = TOP + bottom + 0.15 + 0.33 * len(suite.optimizers)
    figure, grid = panels(titles(results, arenas), height, left, bottom=bottom)
    for arena, panel in grid.items():
        panel.axes.set_xlabel("milliseconds per training step")
        _draw_bars(panel, [cost for cost in found if cost.arena == arena], looks(suite))
        below = -(bottom - 0.05) / (height - TOP - bottom)
        handles = [Patch(color=LIGHT[f"phase-{phase}"]) for phase in STEP_PHASES]
        panel.axes.legend(
            handles, STEP_PHASES, loc="lower center", bbox_to_anchor=(0.5, below), ncols=len(handles), columnspacing=1.2
        )
    caption = (
        "Step time: median milliseconds of a training step by phase; step is clipping, optimizer and schedule. Forward "
        "and backward are the same work for every optimizer: where they differ, the machine was busy with other work."
    )
    if "AdamW" in suite.optimizers:
        caption += " The factor compares whole training steps with AdamW's, that noise included."
    return finished(figure, grid, "step_time", "Step time", caption)


def _draw_bars(panel: Panel, found: Sequence[Cost], look: Mapping[str, Look]) -> None:
    """One bar for each optimizer, the first on top."""
    axes = panel.axes
    adamw = next((cost.train_ms for cost in found if cost.optimizer == "AdamW"), None)
    for row, cost in enumerate(found):
        arm, left = look[cost.optimizer], 0.0
        for phase in STEP_PHASES:
            width = getattr(cost, f"{phase}_ms")
            mark(panel, arm, *axes.barh(row, width, left=left, height=0.62, color=LIGHT[f"phase-{phase}"]))
            said = f"{cost.optimizer}, {phase}: {number(width, 3)} ms"
            panel.points.append((left + width / 2, row, arm.index, said))
            left += width
        time = number(cost.train_ms, 3) + " ms"
        factor = f", {cost.train_ms / adamw:.2f}× AdamW" if adamw and cost.optimizer != "AdamW" else ""
        mark(panel, arm, axes.annotate(time + factor, (left, row), (6, 0), textcoords="offset points", va="center"))
        panel.summary.append(f"{cost.optimizer}: {time}.")
    axes.set_yticks(range(len(found)), [short(cost.optimizer) for cost in found])
    for tick, cost in zip(axes.get_yticklabels(), found, strict=True):
        tick.set(color=look[cost.optimizer].color, fontweight="bold")
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.85 * max(cost.train_ms for cost in found))  # room for the text
    axes.xaxis.set_major_locator(MaxNLocator(6))


FIGURES: dict[str, Callable[[Results], Drawing | None]] = {
    "learning_curves": _learning_curves,
    "learning_curves_log": partial(_learning_curves, logarithmic=True),
    "lr_sensitivity": _lr_sensitivity,
    "causes": draw_causes,
    "shocks": draw_shocks,
    "mechanism": draw_mechanism,
    "step_time": _step_time,
}
