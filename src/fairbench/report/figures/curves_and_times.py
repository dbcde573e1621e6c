"""All figures in their order; among them learning curves, learning-rate sensitivity and step time."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from statistics import fmean
from typing import Any

from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import STEP_PHASES, Cost
from fairbench.analysis.curves import Curve
from fairbench.analysis.results import ArmResults, Results
from fairbench.report.figures.canvas import (
    POINTS_PER_INCH,
    TOP,
    Drawing,
    Look,
    Looks,
    Panel,
    draw_band,
    draw_line,
    draw_values,
    finished,
    log_axis,
    looks_of,
    mark,
    panels,
    style,
    titles,
)
from fairbench.report.figures.causes import draw_causes, draw_mechanism, draw_shocks
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.labels import (
    fit_ticks,
    height_for,
    inner_width,
    label_ends,
    moved,
    name_rows,
    text_width,
    width_for,
)
from fairbench.report.figures.leaderboard import draw_leaderboard
from fairbench.report.tables.numbers import number, rate
from fairbench.suites.schema import Suite
from fairbench.suites.search import Setting

RING: dict[str, Any] = {"marker": "o", "linestyle": "", "markerfacecolor": "none", "markeredgewidth": 1.8}
CROSS: dict[str, Any] = {"marker": "x", "linestyle": "", "markersize": 8, "markeredgewidth": 2, "clip_on": False}
GRID_EDGE: dict[str, Any] = {"color": LIGHT["soft"], "linewidth": 1.1, "linestyle": (0, (1, 3)), "zorder": 0.5}
PHASE_COLORS = [LIGHT[f"phase-{phase}"] for phase in STEP_PHASES]


Draw = Callable[[Analyses, Looks], Drawing | None]


def draw_figures(analyses: Analyses) -> list[Drawing]:
    """All figures that have data."""
    looks = looks_of(analyses.suite)
    with style():
        drawings = [draw(analyses, looks) for draw in FIGURES]
    return [drawing for drawing in drawings if drawing is not None]


def _reference_first(results: Results, arena: str) -> list[ArmResults]:
    return sorted(results.of(arena), key=lambda arm: arm.optimizer != results.study.suite.reference)


def _axis(suite: Suite, arena: str) -> tuple[str, bool]:
    """Label of the axis of the primary metric, and whether higher is better."""
    metric = suite.arenas[arena].metric
    maximize = suite.facts(arena).metrics[metric] == "max"
    return f"{suite.selection_name} {metric} ({'higher' if maximize else 'lower'} is better)", maximize


def draw_learning_curves(analyses: Analyses, looks: Looks, logarithmic: bool = False) -> Drawing | None:
    """The primary metric of every arm over the training."""
    suite, results = analyses.suite, analyses.results
    arenas = [arena for arena in suite.arenas if any(analyses.curves[arena, name] for name in suite.optimizers)]
    if not arenas:
        return None
    right = width_for(_label(arm, looks[arm.optimizer]) for arm in results.arms)
    figure, by_arena = panels(titles(suite, arenas), height_for(len(suite.optimizers)), right=right)
    for arena, panel in by_arena.items():
        arms = _reference_first(results, arena)
        curves = [(arm, curve) for arm in arms if (curve := analyses.curves[arena, arm.optimizer])]
        label, maximize = _axis(suite, arena)
        panel.axes.set_xlabel("training step" + _no_line(arms, [arm for arm, _ in curves], looks))
        panel.axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        panel.axes.set_ylabel(label)
        if logarithmic:
            points = [point for _, curve in curves for point in curve]
            log_axis(panel.axes, "x", [step for step, _, _ in points])
            lows = [mean - (std or 0.0) for _, mean, std in points]
            if not maximize and min(lows) > 0:
                log_axis(panel.axes, "y", [*lows, *(mean for _, mean, _ in points)])
        _draw_curves(panel, curves, looks)
    caption = (
        f"Learning curves: mean and standard deviation over the final seeds, {suite.selection_name} split. "
        f"The wide line is {suite.reference}. A line ends where the first of its seeds diverged. "
        "†: seeds that finished, where not all did."
    )
    if logarithmic:
        caption += " Steps, and values where lower is better, are on logarithmic axes."
    name, title = ("learning_curves_log", " on logarithmic axes") if logarithmic else ("learning_curves", "")
    return finished(figure, by_arena, name, f"Learning curves{title}", caption)


def _draw_curves(panel: Panel, curves: Sequence[tuple[ArmResults, Curve]], looks: Looks) -> None:
    for arm, curve in curves:
        steps, mean, std = zip(*curve, strict=True)
        spread = ["" if s is None else f" ± {number(s, 2)}" for s in std]
        texts = [
            f"{arm.optimizer}, step {step}: {number(m)}{s}" for step, m, s in zip(steps, mean, spread, strict=True)
        ]
        draw_line(panel, looks[arm.optimizer], steps, mean, texts)
        low, high = ([m + sign * (s or 0.0) for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
        draw_band(panel, looks[arm.optimizer], steps, low, high)
        panel.summary.append(f"{texts[-1]}.")
    ends = ((arm, looks[arm.optimizer], curve[-1][:2]) for arm, curve in curves)
    label_ends(panel, {_label(arm, look): (look, end) for arm, look, end in ends})


def _label(arm: ArmResults, look: Look) -> str:
    finished = arm.count("finished")
    return look.label if finished == len(arm.final) else f"{look.label} †{finished}/{len(arm.final)}"


def _no_line(arms: Sequence[ArmResults], drawn: Sequence[ArmResults], looks: Looks) -> str:
    absent = [_label(arm, looks[arm.optimizer]) for arm in arms if arm not in drawn]
    return f"\nno line: {', '.join(absent)}" if absent else ""


def draw_lr_sensitivity(analyses: Analyses, looks: Looks) -> Drawing | None:
    """The metric of each searched setting on the split that selects, by learning rate."""
    suite, results = analyses.suite, analyses.results
    arenas = [arena for arena in suite.arenas if any(run.result for arm in results.of(arena) for run in arm.sweep)]
    if not arenas:
        return None
    right = width_for(look.label for look in looks.values())
    scales = {results.study.optimizers[name].lr_scale for name in suite.optimizers if results.study.tuned(name)}
    figure, by_arena = panels(titles(suite, arenas), height_for(len(looks)), right=right)
    for arena, panel in by_arena.items():
        label, maximize = _axis(suite, arena)
        arms = _reference_first(results, arena)
        means = {arm.optimizer: _means(results, arm) for arm in arms}
        panel.axes.set_xlabel("learning rate" + _no_line(arms, [arm for arm in arms if means[arm.optimizer]], looks))
        panel.axes.set_ylabel(label)
        log_axis(panel.axes, "x", [rate for arm in arms for rate in arm.rates])
        panel.axes.margins(y=0.1)  # for the rings
        for arm in arms:
            _draw_settings(panel, arm, looks[arm.optimizer], means[arm.optimizer], suite.sweep.search == "grid")
            _draw_lost(panel, arm, looks[arm.optimizer], worst=0.0 if maximize else 1.0)
        for scale in scales:
            for edge in (suite.sweep.lr_min, suite.sweep.lr_max):
                panel.axes.axvline(scale * edge, **GRID_EDGE)
        ends = {arm.optimizer: max(_of_selected(arm, means[arm.optimizer]), default=None) for arm in arms}
        label_ends(panel, {looks[name].label: (looks[name], end) for name, end in ends.items() if end})
    caption = (
        f"Learning-rate sensitivity: {suite.selection_name} metric at the end of the sweep trials. Rings mark the "
        f"selected rates, crosses at the panel's edge rates that diverged. {_searched(suite, len(scales) > 1)}"
    )
    return finished(figure, by_arena, "lr_sensitivity", "Learning-rate sensitivity", caption)


def _searched(suite: Suite, scaled: bool) -> str:
    """The meaning of the dotted lines, and of the points between and beyond them."""
    scale = ", each scaled by its `lr_scale`" if scaled else ""
    if suite.sweep.search == "random":
        return f"Points are draws of the rate between the dotted lines, the same draws for every optimizer{scale}."
    thin = "".join(f" Thin lines have the other values of {name}." for name in suite.sweep.extra)
    return (
        f"Dotted lines are the edges of the grid that every optimizer searches{scale}; points beyond them are "
        f"extensions of the grid.{thin} The wide line is {suite.reference}."
    )


def _means(results: Results, arm: ArmResults) -> dict[Setting, float]:
    """The mean over the sweep's seeds of each setting with which all of them finished."""
    metric = results.study.suite.arenas[arm.arena].metric
    values: dict[Setting, list[Any]] = {}
    for run in arm.sweep:
        assert run.setting is not None
        values.setdefault(run.setting, []).append(run.metric("val", metric))
    return {setting: fmean(scores) for setting, scores in values.items() if None not in scores}


def _of_selected(arm: ArmResults, means: Mapping[Setting, float]) -> list[tuple[float, float]]:
    """Rate and mean of the settings with the selected value of the extra; with its first one while none is selected."""
    first = next((setting.extra for setting in means), ())
    shown = arm.selected.settings[0].extra if arm.selected else first
    return [(setting.lr, mean) for setting, mean in means.items() if setting.extra == shown]


def _draw_settings(panel: Panel, arm: ArmResults, look: Look, means: Mapping[Setting, float], joined: bool) -> None:
    """Draw an arm's values and a ring at the selected one; those of a grid in lines, thin for extras not selected."""
    chosen = dict.fromkeys(arm.selected.settings, ", selected")
    wide = _of_selected(arm, means)
    for extra in dict.fromkeys(setting.extra for setting in means):
        of_extra = {setting: mean for setting, mean in means.items() if setting.extra == extra}
        texts = [f"{_in_words(arm, x)}: {number(mean)}{chosen.get(x, '')}" for x, mean in of_extra.items()]
        rates, values = [setting.lr for setting in of_extra], list(of_extra.values())
        if joined and list(zip(rates, values, strict=True)) == wide:
            draw_line(panel, look, rates, values, texts)
        else:
            thin = {"linewidth": 0.8 if joined else 0.0, "alpha": 0.5, "linestyle": look.dash}
            mark(panel, look, *panel.axes.plot(rates, values, color=look.color, **thin))
            draw_values(panel, look, rates, values, texts)
    for setting in (x for x in arm.selected.settings if x in means):
        size, at = 14 if look.wide else 10, (setting.lr, means[setting])
        mark(panel, look, *panel.axes.plot(*at, markeredgecolor=look.color, markersize=size, **RING))
        panel.summary.append(f"{_in_words(arm, setting)}: {number(at[1])}, selected.")


def _in_words(arm: ArmResults, setting: Setting) -> str:
    extra = "".join(f", {name} {value}" for name, value in setting.extra)
    return f"{arm.optimizer}, rate {rate(setting.lr)}{extra}"


def _draw_lost(panel: Panel, arm: ArmResults, look: Look, worst: float) -> None:
    """Draw crosses at the rates at which trials diverged."""
    lost = sorted({run.lr for run in arm.sweep if run.status == "diverged" and run.lr})
    at_edge = {"color": look.color, "transform": panel.axes.get_xaxis_transform(), **CROSS}
    mark(panel, look, *panel.axes.plot(lost, [worst] * len(lost), **at_edge))


def _step_time(analyses: Analyses, looks: Looks) -> Drawing | None:
    suite, costs = analyses.suite, analyses.costs
    arenas = [arena for arena in suite.arenas if any(cost.arena == arena for cost in costs)]
    if not arenas:
        return None
    left, bottom = width_for(look.label for look in looks.values()), 0.95
    height = TOP + bottom + 0.15 + 0.33 * len(suite.optimizers)
    figure, by_arena = panels(titles(suite, arenas), height, left, bottom=bottom)
    for arena, panel in by_arena.items():
        panel.axes.set_xlabel("milliseconds per training step")
        _draw_bars(panel, [cost for cost in costs if cost.arena == arena], looks)
        below = -(bottom - 0.05) / (height - TOP - bottom)
        middle = (panel.box.width / 2 - POINTS_PER_INCH * left) / inner_width(panel.axes)
        handles = [Patch(color=color) for color in PHASE_COLORS]
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (middle, below)}
        panel.axes.legend(handles, STEP_PHASES, ncols=len(handles), columnspacing=1.2, **place)
    caption = (
        "Step time: median milliseconds of a training step by phase; step is clipping, optimizer and schedule. Forward "
        "and backward are the same work for every optimizer: where they differ, the machine was busy with other work."
    )
    if "AdamW" in suite.optimizers:
        caption += " The factor compares whole training steps with AdamW's, including that noise."
    return finished(figure, by_arena, "step_time", "Step time", caption)


def _draw_bars(panel: Panel, costs: Sequence[Cost], looks: Looks) -> None:
    """One bar for each optimizer, the first on top."""
    axes, limit = panel.axes, 0.0
    after = moved(axes.transData, axes, 6)
    adamw = next((cost.train_ms for cost in costs if cost.optimizer == "AdamW"), None)
    for row, cost in enumerate(costs):
        arm, widths = looks[cost.optimizer], [getattr(cost, f"{phase}_ms") for phase in STEP_PHASES]
        *lefts, end = accumulate(widths, initial=0.0)
        bars = list(zip(lefts, widths, strict=True))
        mark(panel, arm, axes.broken_barh(bars, (row - 0.31, 0.62), facecolors=PHASE_COLORS))
        for phase, width, left in zip(STEP_PHASES, widths, lefts, strict=True):
            panel.points.append((left + width / 2, row, arm.index, f"{cost.optimizer}, {phase}: {number(width, 3)} ms"))
        time = number(cost.train_ms, 3) + " ms"
        factor = f", {cost.train_ms / adamw:.2f}× AdamW" if adamw and cost.optimizer != "AdamW" else ""
        mark(panel, arm, axes.text(end, row, time + factor, transform=after, va="center"))
        space = (text_width(time + factor) + 8) / inner_width(axes)
        limit = max(limit, end / max(1 - space, 0.2))
        panel.summary.append(f"{cost.optimizer}: {time}.")
    name_rows(panel, [(looks[cost.optimizer].label, looks[cost.optimizer]) for cost in costs], size=10)
    axes.set_xlim(0, limit or 1.0)
    fit_ticks(axes)


FIGURES: tuple[Draw, ...] = (
    draw_leaderboard,
    draw_learning_curves,
    partial(draw_learning_curves, logarithmic=True),
    draw_lr_sensitivity,
    draw_causes,
    draw_shocks,
    draw_mechanism,
    _step_time,
)
