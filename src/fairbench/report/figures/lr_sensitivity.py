"""Learning-rate sensitivity: the metric of each setting in final trials, and behind it in the short trials."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean, quantiles
from typing import Any

from matplotlib.axes import Axes

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.common.formatting import number, plural, rate
from fairbench.common.grouping import grouped
from fairbench.report.figures.canvas import finished, titles
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.labels import line_panels
from fairbench.report.figures.panel import Panel, Point, draw_line, draw_values, log_axis, mark
from fairbench.report.figures.style import ArmStyle, ArmStyles, axis_label, no_line, reference_first
from fairbench.suites.schema import Suite
from fairbench.suites.search import Setting

Values = Mapping[Setting, Sequence[float]]
"""The metric of every seed, by setting. Settings with which a seed did not finish are left out."""

SPACE = 0.06
"""The space above and below the values, as a share of their range."""
SEARCHED = 3
"""The least settings of an arm with final trials that show how it depends on the rate."""
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


@dataclass(frozen=True)
class Line:
    """A line of the figure: the settings of an arm that differ only in their rate, by rising rate.

    Attributes:
        texts: a sentence about each mean.
    """

    settings: Sequence[Setting]
    means: list[float]
    texts: list[str]

    @property
    def rates(self) -> list[float]:
        """The rate of each setting."""
        return [setting.lr for setting in self.settings]


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
    short_values = {arm.optimizer: _values(arm.sweep, metric) for arm in arms}
    full_values = {arm.optimizer: _values(arm.full_length, metric) for arm in arms}
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
    reported = _reported(arms, full_values)
    _limit_values(panel, full_values, short_values, [mean for _, _, mean in reported])
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


def _values(runs: Iterable[Run], metric: str) -> Values:
    """The metric of every seed of each setting, without settings with which a seed did not finish."""
    values: dict[Setting, list[Any]] = grouped((run.setting, run.metric("val", metric)) for run in runs if run.setting)
    return {setting: seeds for setting, seeds in values.items() if None not in seeds}


def _means(by_arm: Mapping[str, Values]) -> list[float]:
    """The means over seeds of all settings of all arms."""
    means = []
    for values in by_arm.values():
        means += [fmean(seeds) for seeds in values.values()]
    return means


def _reported(arms: Sequence[ArmResults], full: Mapping[str, Values]) -> list[tuple[ArmResults, Setting, float]]:
    """The selected setting of each arm, and its mean; without arms whose final trials are not finished."""
    reported = []
    for arm in arms:
        if arm.selected and arm.selected in full[arm.optimizer]:
            reported.append((arm, arm.selected, fmean(full[arm.optimizer][arm.selected])))
    return reported


def _limit_values(
    panel: Panel, full: Mapping[str, Values], short: Mapping[str, Values], reported: Sequence[float]
) -> None:
    """Limit the y axis of a panel to the values that decide, so that values far from them lie beyond its edge.

    The values of final trials decide, if some arm has them at enough rates, otherwise those of all trials. A value is
    far if it is more than three interquartile ranges outside of the quartiles. A reported value never is.
    """
    means = _means(full)
    if max(map(len, full.values()), default=0) < SEARCHED:
        means += _means(short)
    if len(means) < 2:
        return
    low, _, high = quantiles(means, n=4)
    reach = 3 * (high - low)
    near = [value for value in means if low - reach <= value <= high + reach or value in reported]
    space = SPACE * (max(near) - min(near))
    if space > 0 and isfinite(reach + space):
        panel.axes.set_ylim(min(near) - space, max(near) + space)


def _lines(arm: ArmResults, values: Values) -> Iterator[Line]:
    """The lines of an arm: one for each combination of the hyperparameters that are searched with the rate."""
    rising = sorted(values, key=lambda setting: setting.lr)
    for extra in dict.fromkeys(setting.extra for setting in values):
        settings = [setting for setting in rising if setting.extra == extra]
        means = []
        texts = []
        for setting in settings:
            mean = fmean(values[setting])
            means.append(mean)
            texts.append(f"{_in_words(arm, setting)}: {number(mean)}")
        yield Line(settings, means, texts)


def _draw_short(panel: Panel, arm: ArmResults, style: ArmStyle, values: Values) -> None:
    """Draw the short trials of an arm: small points on thin lines."""
    for line in _lines(arm, values):
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
    for line in _lines(arm, values):
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
        panel.said.append(f"{_in_words(arm, setting)}: {number(mean)}, selected.")
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


def _in_words(arm: ArmResults, setting: Setting) -> str:
    """The optimizer and the setting in words."""
    extra = "".join(f", {name} {value}" for name, value in setting.extra)
    return f"{arm.optimizer}, rate {rate(setting.lr)}{extra}"


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
        rates = _diverged_rates(arm)
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


def _diverged_rates(arm: ArmResults) -> list[float]:
    """The rates at which trials of an arm diverged, rising."""
    rates = set()
    for run in (*arm.sweep, *arm.full_length):
        if run.status == "diverged" and run.lr:
            rates.add(run.lr)
    return sorted(rates)
