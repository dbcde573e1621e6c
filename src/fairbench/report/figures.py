"""The figures: learning curves, learning-rate sensitivity and step time."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fairbench.analysis.results import ArmResults, Results
from fairbench.report.canvas import (
    Drawing,
    add_legend,
    finished,
    label_ends,
    palette,
    panels,
    plot_line,
    room_for,
    short,
    style,
)
from fairbench.report.tables import STEP_PHASES, Cost, costs

RING: dict[str, Any] = {"marker": "o", "linestyle": "", "markerfacecolor": "none", "markeredgewidth": 1.8}
CROSS: dict[str, Any] = {"marker": "x", "linestyle": "", "markersize": 8, "markeredgewidth": 2, "clip_on": False}
PHASE_COLORS = {"data": "#c9c9c9", "forward": "#92b4d4", "backward": "#4a7fb5", "step": "#f0a04b"}


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


def _titles(results: Results, arenas: Sequence[str]) -> dict[str, str]:
    """What a panel is called: its task, and the arena where that has another name."""
    suite = results.study.suite
    return {x: suite.facts(x).title + ("" if suite.task(x) == x else f" ({x})") for x in arenas}


def _direction(results: Results, arena: str) -> tuple[str, bool]:
    """Label of a validation axis, and whether higher is better."""
    metric = results.study.suite.arenas[arena].metric
    maximize = results.study.suite.facts(arena).metrics[metric] == "max"
    return f"validation {metric} ({'higher' if maximize else 'lower'} is better)", maximize


def _learning_curves(results: Results) -> Drawing | None:
    suite = results.study.suite
    arenas = [arena for arena in suite.arenas if any(_curve(results, arm) for arm in results.of(arena))]
    if not arenas:
        return None
    colors = palette(suite)
    figure, grid = panels(
        _titles(results, arenas), height=3.4, right=room_for(_curve_label(arm) for arm in results.arms)
    )
    for arena, axes in grid.items():
        curves = [(arm, _curve(results, arm)) for arm in _reference_first(results, arena)]
        no_line = "".join(f"\nno line: {_curve_label(arm)}" for arm, curve in curves if not curve)
        axes.set_xlabel("training step" + no_line)
        axes.set_ylabel(_direction(results, arena)[0])
        curves = [(arm, curve) for arm, curve in curves if curve]
        for arm, curve in curves:
            color, wide = colors[arm.optimizer], arm.optimizer == suite.reference
            steps, mean, std = zip(*curve, strict=True)
            plot_line(axes, steps, mean, color, wide)
            low, high = ([m + sign * s for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
            axes.fill_between(steps, low, high, color=color, alpha=0.16, linewidth=0)
        ends = {_curve_label(arm): curve[-1][:2] for arm, curve in curves}
        label_ends(axes, ends, [colors[arm.optimizer] for arm, _ in curves])
    caption = (
        "Learning curves: mean and standard deviation over the final seeds, validation split. "
        f"The wide line is {suite.reference}. A line ends where the first of its seeds diverged. "
        "†: seeds that finished, where not all did."
    )
    return finished(figure, "learning_curves", caption)


def _curve(results: Results, arm: ArmResults) -> list[tuple[float, float, float]]:
    """Step, mean and standard deviation, where every seed with a record still has a value."""
    metric = results.study.suite.arenas[arm.arena].metric
    seeds = [{e["step"]: e["val"][metric] for e in run.result["evaluations"]} for run in arm.final if run.result]
    shared = sorted(set.intersection(*map(set, seeds))) if seeds else []
    columns = [(step, [seed[step] for seed in seeds]) for step in shared]
    return [(step, fmean(values), stdev(values) if len(values) > 1 else 0.0) for step, values in columns]


def _curve_label(arm: ArmResults) -> str:
    finished = arm.count("finished")
    name = short(arm.optimizer)
    return name if finished == len(arm.final) else f"{name} †{finished}/{len(arm.final)}"


def _lr_sensitivity(results: Results) -> Drawing | None:
    suite = results.study.suite
    arenas = [arena for arena in suite.arenas if any(run.result for arm in results.of(arena) for run in arm.sweep)]
    if not arenas:
        return None
    colors = palette(suite)
    signs = {"selected": RING | {"markersize": 10}, "diverged": CROSS}
    figure, grid = panels(_titles(results, arenas), height=3.4, legend=len(colors) + len(signs))
    for arena, axes in grid.items():
        label, maximize = _direction(results, arena)
        axes.set_xlabel("learning rate")
        axes.set_ylabel(label)
        axes.set_xscale("log")
        axes.margins(y=0.1)  # for the rings
        for arm in _reference_first(results, arena):
            _draw_rates(axes, arm, suite.arenas[arena].metric, colors[arm.optimizer], arm.optimizer == suite.reference)
        for arm in results.of(arena):
            lost = sorted({run.lr for run in arm.sweep if run.status == "diverged" and run.lr})
            edge = [0.0 if maximize else 1.0] * len(lost)
            axes.plot(lost, edge, color=colors[arm.optimizer], transform=axes.get_xaxis_transform(), **CROSS)
    handles = [Line2D([], [], color=colors[name], linewidth=4.5 if name == suite.reference else 1.6) for name in colors]
    handles += [Line2D([], [], color="#444444", **sign) for sign in signs.values()]
    add_legend(figure, handles, [*map(short, colors), *signs])
    caption = (
        "Learning-rate sensitivity: validation metric at the end of the sweep trials. Rings mark the selected rates, "
        f"crosses at the panel's edge rates that diverged. The wide line is {suite.reference}."
    )
    return finished(figure, "lr_sensitivity", caption)


def _draw_rates(axes: Axes, arm: ArmResults, metric: str, color: str, wide: bool) -> None:
    """The mean over the sweep's seeds at each rate at which all of them finished."""
    same_decay = [run for run in arm.sweep if arm.weight_decay in (None, run.weight_decay)]
    runs = {lr: [run.metric("val", metric) for run in same_decay if run.lr == lr] for lr in arm.rates}
    complete = {
        lr: [value for value in values if value is not None] for lr, values in runs.items() if None not in values
    }
    means = {lr: fmean(values) for lr, values in complete.items()}
    plot_line(axes, list(means), list(means.values()), color, wide, marker="o")
    if arm.lr in means:
        axes.plot(arm.lr, means[arm.lr], markeredgecolor=color, markersize=14 if wide else 10, **RING)


def _step_time(results: Results) -> Drawing | None:
    suite, found = results.study.suite, costs(results)
    arenas = [arena for arena in suite.arenas if any(cost.arena == arena for cost in found)]
    if not arenas:
        return None
    height, left = 1.2 + 0.33 * len(suite.optimizers), room_for(map(short, suite.optimizers))
    figure, grid = panels(_titles(results, arenas), height, left, legend=len(STEP_PHASES))
    for arena, axes in grid.items():
        axes.set_xlabel("milliseconds per training step")
        _draw_bars(axes, [cost for cost in found if cost.arena == arena], palette(suite))
    handles = [Patch(color=PHASE_COLORS[phase]) for phase in STEP_PHASES]
    add_legend(figure, handles, STEP_PHASES)
    caption = (
        "Step time: median milliseconds of a training step by phase; step is clipping, optimizer and schedule. Forward "
        "and backward are the same work for every optimizer: where they differ, the machine was busy with other work."
    )
    if "AdamW" in suite.optimizers:
        caption += " The factor compares whole training steps with AdamW's, that noise included."
    return finished(figure, "step_time", caption)


def _draw_bars(axes: Axes, found: Sequence[Cost], colors: dict[str, str]) -> None:
    """One bar for each optimizer, the first on top."""
    adamw = next((cost.train_ms for cost in found if cost.optimizer == "AdamW"), None)
    for row, cost in enumerate(found):
        left = 0.0
        for phase in STEP_PHASES:
            width = getattr(cost, f"{phase}_ms")
            axes.barh(row, width, left=left, height=0.62, color=PHASE_COLORS[phase])
            left += width
        time = f"  {cost.train_ms:#.3g}".rstrip(".") + " ms"
        factor = f"   {cost.train_ms / adamw:.2f}× AdamW" if adamw and cost.optimizer != "AdamW" else ""
        axes.text(left, row, time + factor, va="center", color="#222222")
    axes.set_yticks(range(len(found)), [short(cost.optimizer) for cost in found])
    for tick, cost in zip(axes.get_yticklabels(), found, strict=True):
        tick.set(color=colors[cost.optimizer], fontweight="bold")
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.85 * max(cost.train_ms for cost in found))  # room for the text
    axes.xaxis.set_major_locator(MaxNLocator(6))


FIGURES = {"learning_curves": _learning_curves, "lr_sensitivity": _lr_sensitivity, "step_time": _step_time}
