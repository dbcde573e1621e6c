"""Learning-rate sensitivity: the metric of each setting in final trials, and behind it in the short trials."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Results
from fairbench.common.formatting import number, plural, rate
from fairbench.report.figures.canvas import finished, titles
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.lr_values import (
    Values,
    diverged_rates,
    in_words,
    limits_of,
    lines_of,
    reported_settings,
    values_of,
)
from fairbench.report.figures.panel import Panel, Point, draw_line, draw_values, log_axis, mark
from fairbench.report.figures.style import ArmStyle, ArmStyles, axis_label, no_line, reference_first
from fairbench.suites.schema import Suite
from fairbench.suites.search import Setting

STRIP = 0.11
"""The height in inches of a marker in the strip of the selected rates."""
HIGHEST_STRIP = 0.8
"""The most inches of the strip."""
STRIP_STYLE: dict[str, Any] = {"color": LIGHT["raised"], "linewidth": 0, "zorder": 0.7}
SELECTED: dict[str, Any] = {"linestyle": "", "markersize": 6, "markeredgewidth": 0, "zorder": 5}
CROSS_HEIGHT = 0.1
"""The distance in inches between crosses of several arms at the same rate."""
CROSS: dict[str, Any] = {"marker": "x", "linestyle": "", "markersize": 8, "markeredgewidth": 2, "clip_on": False}
GRID_EDGE: dict[str, Any] = {"color": LIGHT["soft"], "linewidth": 1.1, "linestyle": (0, (1, 3)), "zorder": 0.5}


def draw_lr_sensitivity(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of the metric of each searched setting by learning rate, on the split that selects."""
    suite = analyses.suite
    results = analyses.results
    arenas = [arena for arena in suite.compared_arenas if _has_sweep(results, arena)]
    if not arenas:
        return None
    scales = {results.study.optimizers[name].lr_scale for name in suite.optimizers if results.study.searched(name)}
    figure, by_arena = line_panels(titles(suite, arenas), styles.values())
    for panel in by_arena.values():
        _draw_panel(panel, analyses, styles)
        for scale in scales:
            _draw_grid_edges(panel.axes, suite, scale)
    caption = (
        f"Learning-rate sensitivity: {suite.selection_name} metric at the end of the trainings with the reported "
        "length, mean over the seeds, with a bar from the lowest to the highest seed. Small points on thin lines: the "
        "short trials of the sweep. What is far from the values of the long trainings is beyond the panel's edge. The "
        "markers in the gray strip are the selected rates; crosses at the other edge are rates that diverged. "
        f"{_searched(suite, is_scaled=len(scales) > 1)}"
    )
    return finished(figure, by_arena, "lr_sensitivity", "Learning-rate sensitivity", caption)


def _has_sweep(results: Results, arena: str) -> bool:
    """Whether a trial of a sweep in the arena has a result."""
    return any(run.result for arm in results.of(arena) for run in arm.sweep)


def _draw_panel(panel: Panel, analyses: Analyses, styles: ArmStyles) -> None:
    """Draw the settings of all arms of an arena: short trials, final trials, and rates that diverged."""
    suite = analyses.suite
    arms = reference_first(analyses.results, panel.arena)
    metric = suite.arenas[panel.arena].metric
    short_values = {arm.optimizer: values_of(arm.sweep, metric) for arm in arms}
    full_values = {arm.optimizer: values_of(arm.full_length, metric) for arm in arms}
    drawn = [arm for arm in arms if full_values[arm.optimizer]]
    label, panel.best = axis_label(suite, panel.arena)
    panel.axes.set(xlabel=f"learning rate{no_line(arms, drawn)}", ylabel=label)
    rates: list[float] = []
    for arm in arms:
        rates += arm.rates
    log_axis(panel.axes, rates)
    panel.axes.grid(visible=False, axis="x")  # the dotted edges of the grid would lie on it
    for arm in arms:
        style = styles[arm.optimizer]
        _draw_short(panel, arm, style, short_values[arm.optimizer])
        _draw_full(panel, arm, style, full_values[arm.optimizer])
    reported = reported_settings(arms, full_values)
    limits = limits_of(full_values, short_values, [mean for _, _, mean in reported])
    if limits is not None:
        panel.axes.set_ylim(limits)
    _draw_selected(panel, reported, styles)
    _draw_lost(panel, arms, styles)
    if not any(short_values.values()) and not any(full_values.values()):  # every trial diverged
        panel.axes.set_yticks([])


def _draw_grid_edges(axes: Axes, suite: Suite, scale: float) -> None:
    """Draw dotted lines at the edges of the searched grid, whose rates are scaled."""
    axes.axvline(scale * suite.sweep.lr_min, **GRID_EDGE)
    axes.axvline(scale * suite.sweep.lr_max, **GRID_EDGE)


def _searched(suite: Suite, is_scaled: bool) -> str:
    """The end of the caption: the meaning of dotted lines, of points beyond them, and of several lines of an arm."""
    scale = ", each scaled by its lr_scale" if is_scaled else ""
    lines = "".join(f" A line for each value of {name}." for name in suite.sweep.extra)
    return (
        f"Dotted lines are the edges of the grid that every optimizer searches{scale}; points beyond them "
        f"were added because the best lay at the edge.{lines} The wide line is {suite.reference}."
    )


def _draw_short(panel: Panel, arm: ArmResults, style: ArmStyle, values: Values) -> None:
    """Draw the short trials of an arm: small points on thin lines."""
    for line in lines_of(arm, values):
        thin_lines = panel.axes.plot(
            line.rates,
            line.means,
            color=style.color,
            linewidth=0.8,
            alpha=0.5,
            linestyle=style.dash,
        )
        mark(panel, style, *thin_lines)
        texts = [f"{text}, in the sweep" for text in line.texts]
        draw_values(panel, style, line.rates, line.means, texts, markersize=2.5)


def _draw_full(panel: Panel, arm: ArmResults, style: ArmStyle, values: Values) -> None:
    """Draw the final trials of an arm: the mean and the range over the seeds."""
    for line in lines_of(arm, values):
        lows = []
        highs = []
        texts = []
        for setting, text in zip(line.settings, line.texts, strict=True):
            seeds = values[setting]
            selected = ", selected" if setting == arm.selected else ""
            lows.append(min(seeds))
            highs.append(max(seeds))
            texts.append(f"{text}, {plural(len(seeds), 'seed')}{selected}")
        ranges = panel.axes.vlines(line.rates, lows, highs, color=style.color, linewidth=1.2, alpha=0.7)
        mark(panel, style, ranges)
        draw_line(panel, style, line.rates, line.means, texts)
        # the label is at the point with the highest rate of all lines
        panel.ends[style.end] = style, max((setting.lr, fmean(seeds)) for setting, seeds in values.items())


def _draw_selected(panel: Panel, reported: Sequence[tuple[ArmResults, Setting, float]], styles: ArmStyles) -> None:
    """Draw the marker of each arm at its selected rate, in a strip at the panel's best edge.

    Markers at the same rate are stacked from the edge.
    """
    if not reported:
        return
    places_at = max(Counter(setting.lr for _, setting, _ in reported).values()) + 0.5
    share = min(HIGHEST_STRIP, STRIP * places_at) / panel.inner_height
    _add_strip(panel, share)
    drawn_at = Counter[float]()
    for arm, setting, mean in reported:
        height = share * (drawn_at[setting.lr] + 0.5) / places_at
        if panel.best == "high":
            height = 1 - height
        style = styles[arm.optimizer]
        transform = panel.axes.get_xaxis_transform()
        marker = panel.axes.plot(
            setting.lr, height, color=style.color, marker=style.marker, transform=transform, **SELECTED
        )
        mark(panel, style, *marker)
        panel.said.append(f"{in_words(arm, setting)}: {number(mean)}, selected.")
        drawn_at[setting.lr] += 1


def _add_strip(panel: Panel, share: float) -> None:
    """Extend the y axis of a panel beyond the best values by a gray strip with a share of the panel's height."""
    low, high = panel.axes.get_ylim()
    more = (high - low) * share / (1 - share)
    if panel.best == "high":
        panel.axes.set_ylim(low, high + more)
        panel.axes.axhspan(high, high + more, **STRIP_STYLE)
    else:
        panel.axes.set_ylim(low - more, high)
        panel.axes.axhspan(low - more, low, **STRIP_STYLE)


def _draw_lost(panel: Panel, arms: Sequence[ArmResults], styles: ArmStyles) -> None:
    """Draw crosses at the rates at which trials diverged.

    Crosses at the same rate are stacked from the panel's edge.
    """
    if panel.best == "high":  # the worst values are at the bottom
        edge = 0.0
        step = CROSS_HEIGHT / panel.inner_height
    else:
        edge = 1.0
        step = -CROSS_HEIGHT / panel.inner_height
    crosses_at = Counter[float]()  # the number of crosses at each rate so far
    for arm in arms:
        rates = diverged_rates(arm)
        if not rates:
            continue
        style = styles[arm.optimizer]
        heights = [edge + step * crosses_at[lr] for lr in rates]
        crosses = panel.axes.plot(
            rates, heights, color=style.color, transform=panel.axes.get_xaxis_transform(), **CROSS
        )
        mark(panel, style, *crosses)
        for lr, height in zip(rates, heights, strict=True):
            text = f"{arm.optimizer}, rate {rate(lr)}: diverged"
            panel.lost.append(Point(lr, height, style.index, numbers=(lr,), text=text))
            panel.said.append(f"{text}.")
        crosses_at.update(rates)
