"""Learning-rate sensitivity: the metric of each setting at the reported length, and of the short trials behind."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from statistics import fmean, quantiles
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Run
from fairbench.common.formatting import number, plural, rate
from fairbench.common.grouping import grouped
from fairbench.report.figures.canvas import Drawing, finished, titles
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.panel import Panel, Point, draw_line, draw_values, log_axis, mark
from fairbench.report.figures.style import ArmStyle, ArmStyles, axis_label, no_line, reference_first
from fairbench.suites.schema import Suite
from fairbench.suites.search import Setting

Values = Mapping[Setting, Sequence[float]]
"""The metric of every seed, of each setting with which all seeds finished."""

RING: dict[str, Any] = {"marker": "o", "linestyle": "", "markerfacecolor": "none", "markeredgewidth": 1.8}
SPACE = 0.1
"""Above and below the values, as a share of their range: for the rings."""
CROSS_HEIGHT = 0.1
"""The distance in inches of crosses of several arms at one rate."""
CROSS: dict[str, Any] = {"marker": "x", "linestyle": "", "markersize": 8, "markeredgewidth": 2, "clip_on": False}
GRID_EDGE: dict[str, Any] = {"color": LIGHT["soft"], "linewidth": 1.1, "linestyle": (0, (1, 3)), "zorder": 0.5}


def draw_lr_sensitivity(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The metric of each searched setting on the split that selects, by learning rate."""
    suite, results = analyses.suite, analyses.results
    arenas = [
        arena for arena in suite.compared_arenas if any(run.result for arm in results.of(arena) for run in arm.sweep)
    ]
    if not arenas:
        return None
    scales = {results.study.optimizers[name].lr_scale for name in suite.optimizers if results.study.tuned(name)}
    figure, by_arena = line_panels(titles(suite, arenas), styles.values())
    for arena, panel in by_arena.items():
        label, panel.best = axis_label(suite, arena)
        arms = reference_first(results, arena)
        metric = suite.arenas[arena].metric
        sweep = {arm.optimizer: _values(arm.sweep, metric) for arm in arms}
        full = {arm.optimizer: _values(arm.full_length, metric) for arm in arms}
        absent = no_line(arms, [x for x in arms if {**sweep, **full}[x.optimizer]])
        panel.axes.set(xlabel=f"learning rate{absent}", ylabel=label)
        log_axis(panel.axes, [lr for arm in arms for lr in arm.rates])
        panel.axes.margins(y=SPACE)
        for arm in arms:
            style = styles[arm.optimizer]
            _draw_short(panel, arm, style, sweep[arm.optimizer])
            _draw_full(panel, arm, style, full[arm.optimizer])
        _leave_out_far(panel, _means(full), _means(sweep))
        _draw_lost(panel, arms, styles, worst=0.0 if panel.best == "high" else 1.0)
        if not any((*sweep.values(), *full.values())):
            panel.axes.set_yticks([])
        for scale in scales:
            for edge in (suite.sweep.lr_min, suite.sweep.lr_max):
                panel.axes.axvline(scale * edge, **GRID_EDGE)
    caption = (
        f"Learning-rate sensitivity: {suite.selection_name} metric at the end of the trainings with the reported "
        "length, mean over the seeds, with a bar from the lowest to the highest seed. Small points on thin lines: the "
        "short trials of the sweep; one that is far from all others is beyond the panel's edge. Rings mark the "
        "selected rates, crosses from the panel's edge rates that diverged. "
        f"{_searched(suite, len(scales) > 1)}"
    )
    return finished(figure, by_arena, "lr_sensitivity", "Learning-rate sensitivity", caption)


def _searched(suite: Suite, scaled: bool) -> str:
    """The meaning of the dotted lines, and of the points between and beyond them."""
    scale = ", each scaled by its lr_scale" if scaled else ""
    several = "".join(f" A line for each value of {name}." for name in suite.sweep.extra)
    return (
        f"Dotted lines are the edges of the grid that every optimizer searches{scale}; points beyond them "
        f"were added because the best lay at the edge.{several} The wide line is {suite.reference}."
    )


def _values(runs: Iterable[Run], metric: str) -> Values:
    values: dict[Setting, list[Any]] = grouped((run.setting, run.metric("val", metric)) for run in runs if run.setting)
    return {setting: seeds for setting, seeds in values.items() if None not in seeds}


def _means(of_arms: Mapping[str, Values]) -> list[float]:
    return [fmean(seeds) for values in of_arms.values() for seeds in values.values()]


def _leave_out_far(panel: Panel, full: Sequence[float], short: Sequence[float]) -> None:
    """Limit a panel to all but those short trials that are over three interquartile ranges outside of the quartiles."""
    if len(short) < 2:
        return
    low, _, high = quantiles((*full, *short), n=4)
    reach = 3 * (high - low)
    near = [*full, *(x for x in short if low - reach <= x <= high + reach)]
    space = SPACE * (max(near) - min(near)) if near else 0.0
    if len(near) < len(full) + len(short) and isfinite(reach + space):
        panel.axes.set_ylim(min(near) - space, max(near) + space)


def _lines(arm: ArmResults, values: Values) -> Iterator[tuple[Values, list[float], list[float], list[str]]]:
    """The settings by rising rate, with rates, means and texts; a line for each value of what is searched too."""
    rising = sorted(values, key=lambda setting: setting.lr)
    for extra in dict.fromkeys(setting.extra for setting in values):
        settings = {setting: values[setting] for setting in rising if setting.extra == extra}
        means = [*map(fmean, settings.values())]
        texts = [f"{_in_words(arm, x)}: {number(mean)}" for x, mean in zip(settings, means, strict=True)]
        yield settings, [setting.lr for setting in settings], means, texts


def _draw_short(panel: Panel, arm: ArmResults, style: ArmStyle, values: Values) -> None:
    """Draw the short trials: small points on a thin line."""
    thin = {"linewidth": 0.8, "alpha": 0.5, "linestyle": style.dash}
    for _, rates, means, texts in _lines(arm, values):
        mark(panel, style, *panel.axes.plot(rates, means, color=style.color, **thin))
        draw_values(panel, style, rates, means, [f"{text}, in the sweep" for text in texts], markersize=2.5)


def _draw_full(panel: Panel, arm: ArmResults, style: ArmStyle, values: Values) -> None:
    """Draw the trainings with the reported length: mean and range over the seeds, a ring at the selected setting."""
    for settings, rates, means, texts in _lines(arm, values):
        remarks = (f"{plural(len(x), 'seed')}{', selected' * (y == arm.selected)}" for y, x in settings.items())
        lows, highs = ([of(seeds) for seeds in settings.values()] for of in (min, max))
        mark(panel, style, panel.axes.vlines(rates, lows, highs, color=style.color, linewidth=1.2, alpha=0.7))
        draw_line(panel, style, rates, means, [f"{x}, {remark}" for x, remark in zip(texts, remarks, strict=True)])
        panel.ends[style.end] = style, max((x.lr, fmean(seeds)) for x, seeds in values.items())
    if arm.selected and arm.selected in values:
        size, at = 14 if style.wide else 10, (arm.selected.lr, fmean(values[arm.selected]))
        mark(panel, style, *panel.axes.plot(*at, markeredgecolor=style.color, markersize=size, **RING))
        panel.said.append(f"{_in_words(arm, arm.selected)}: {number(at[1])}, selected.")


def _in_words(arm: ArmResults, setting: Setting) -> str:
    extra = "".join(f", {name} {value}" for name, value in setting.extra)
    return f"{arm.optimizer}, rate {rate(setting.lr)}{extra}"


def _draw_lost(panel: Panel, arms: Sequence[ArmResults], styles: ArmStyles, worst: float) -> None:
    """Draw crosses at the rates at which trials diverged, stacked from the panel's edge where arms share a rate."""
    step = CROSS_HEIGHT / panel.inner_height * (1 if worst == 0 else -1)
    drawn = Counter[float]()
    rates = (
        (arm, sorted({run.lr for run in (*arm.sweep, *arm.full_length) if run.status == "diverged" and run.lr}))
        for arm in arms
    )
    for arm, lost in (x for x in rates if x[1]):
        style = styles[arm.optimizer]
        texts = [f"{arm.optimizer}, rate {rate(lr)}: diverged" for lr in lost]
        at_edge = {"color": style.color, "transform": panel.axes.get_xaxis_transform(), **CROSS}
        heights = [worst + step * drawn[lr] for lr in lost]
        mark(panel, style, *panel.axes.plot(lost, heights, **at_edge))
        at = zip(lost, heights, texts, strict=True)
        panel.lost.extend(Point(lr, height, style.index, (lr,), text) for lr, height, text in at)
        panel.said.extend(f"{text}." for text in texts)
        drawn.update(lost)
