"""Learning-rate sensitivity: what each search tried, and what it selected."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Run
from fairbench.common.formatting import number, rate
from fairbench.report.figures.canvas import Drawing, finished, panels, titles
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.labels import draw_legend, label_ends, label_space, lines_height
from fairbench.report.figures.panel import Panel, Point, draw_line, draw_values, log_axis, mark
from fairbench.report.figures.style import ArmStyle, ArmStyles, axis_label, no_line, reference_first
from fairbench.suites.schema import Suite
from fairbench.suites.search import Setting

Means = Mapping[Setting, float]
"""The mean metric of each setting with which all seeds finished."""

RING: dict[str, Any] = {"marker": "o", "linestyle": "", "markerfacecolor": "none", "markeredgewidth": 1.8}
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
    figure, by_arena = panels(titles(suite, arenas), lines_height(len(styles)), **label_space(styles.values()))
    draw_legend(figure, styles.values())
    for arena, panel in by_arena.items():
        label, maximize = axis_label(suite, arena)
        arms = reference_first(results, arena)
        means = {arm.optimizer: _means(arm.selecting, suite.arenas[arena].metric) for arm in arms}
        shown = {arm.optimizer: _of_selected(arm, means[arm.optimizer]) for arm in arms}
        panel.axes.set_xlabel("learning rate" + no_line(arms, [arm for arm in arms if means[arm.optimizer]]))
        panel.best = "high" if maximize else "low"
        panel.axes.set_ylabel(label)
        log_axis(panel.axes, [run.lr for arm in arms for run in (*arm.sweep, *arm.confirm) if run.lr])
        panel.axes.margins(y=0.1)  # for the rings
        for arm in arms:
            style = styles[arm.optimizer]
            if arm.confirm:
                sweep = _means(arm.sweep, suite.arenas[arena].metric)
                _draw_thin(panel, arm, style, sweep, ", in the sweep")
                _draw_moves(panel, arm, style, means[arm.optimizer])
            _draw_settings(panel, arm, style, means[arm.optimizer])
        _draw_lost(panel, arms, styles, worst=0.0 if maximize else 1.0)
        if not any(means.values()):
            panel.axes.set_yticks([])
        for scale in scales:
            for edge in (suite.sweep.lr_min, suite.sweep.lr_max):
                panel.axes.axvline(scale * edge, **GRID_EDGE)
        ends = {name: max(((x.lr, of[x]) for x in shown[name]), default=None) for name, of in means.items()}
        label_ends(panel, {styles[name].end: (styles[name], end) for name, end in ends.items() if end})
    confirmed = (
        " Thin lines are the sweep; the others are trainings with the reported length, which select. An arrow leads "
        "from the rate that the sweep selected to another one that these select."
    )
    caption = (
        f"Learning-rate sensitivity: {suite.selection_name} metric at the end of the trials that select. Rings mark "
        f"the selected rates, crosses from the panel's edge rates that diverged. {_searched(suite, len(scales) > 1)}"
        f"{confirmed if any(map(suite.confirms, arenas)) else ''}"
    )
    return finished(figure, by_arena, "lr_sensitivity", "Learning-rate sensitivity", caption)


def _searched(suite: Suite, scaled: bool) -> str:
    """The meaning of the dotted lines, and of the points between and beyond them."""
    scale = ", each scaled by its lr_scale" if scaled else ""
    thin = "".join(f" Thin lines have the other values of {name}." for name in suite.sweep.extra)
    return (
        f"Dotted lines are the edges of the grid that every optimizer searches{scale}; points beyond them "
        f"were added because the best lay at the edge.{thin} The wide line is {suite.reference}."
    )


def _means(runs: Iterable[Run], metric: str) -> Means:
    values: dict[Setting, list[Any]] = {}
    for run in runs:
        assert run.setting is not None
        values.setdefault(run.setting, []).append(run.metric("val", metric))
    return {setting: fmean(scores) for setting, scores in values.items() if None not in scores}


def _of_selected(arm: ArmResults, means: Means) -> list[Setting]:
    """The settings with the selected values of what is searched with the rate; with the first ones while none is."""
    first = next((setting.extra for setting in means), ())
    shown = arm.selected.settings[0].extra if arm.selected else first
    return [setting for setting in means if setting.extra == shown]


def _draw_settings(panel: Panel, arm: ArmResults, style: ArmStyle, means: Means) -> None:
    """Draw an arm's values and a ring at the selected one; those of a grid in lines, thin for extras not selected."""
    shown = _of_selected(arm, means)
    if shown:
        draw_line(panel, style, *_values(arm, {setting: means[setting] for setting in shown}, ""))
    _draw_thin(panel, arm, style, {x: mean for x, mean in means.items() if x not in shown}, "")
    for setting in (x for x in arm.selected.settings if x in means):
        size, at = 14 if style.wide else 10, (setting.lr, means[setting])
        mark(panel, style, *panel.axes.plot(*at, markeredgecolor=style.color, markersize=size, **RING))
        panel.summary.append(f"{_in_words(arm, setting)}: {number(at[1])}, selected.")


def _draw_thin(panel: Panel, arm: ArmResults, style: ArmStyle, means: Means, remark: str) -> None:
    """Draw values that do not select, or with extras not selected; a thin line for each extra."""
    thin = {"linewidth": 0.8, "alpha": 0.5, "linestyle": style.dash}
    for extra in dict.fromkeys(setting.extra for setting in means):
        rates, values, texts = _values(arm, {x: mean for x, mean in means.items() if x.extra == extra}, remark)
        mark(panel, style, *panel.axes.plot(rates, values, color=style.color, **thin))
        draw_values(panel, style, rates, values, texts, markersize=2.5 if remark else 4)


def _draw_moves(panel: Panel, arm: ArmResults, style: ArmStyle, means: Means) -> None:
    """Draw an arrow from each setting that the sweep selected to the one that was selected instead."""
    moves = ((arm.searched.by_seed[seed], after) for seed, after in arm.selected.by_seed.items())
    for before, after in dict.fromkeys(moves):
        if before != after and before in means and after in means:
            head, tail = ((setting.lr, means[setting]) for setting in (after, before))
            arrow = {"arrowstyle": "->", "color": style.color, "connectionstyle": "arc3,rad=-0.4", "linewidth": 1.2}
            mark(panel, style, panel.axes.annotate("", head, tail, arrowprops=arrow))
            panel.summary.append(f"{_in_words(arm, before)} was selected by the sweep.")


def _values(arm: ArmResults, means: Means, remark: str) -> tuple[list[float], list[float], list[str]]:
    """Rates, means, and a sentence about each."""
    chosen = dict.fromkeys(arm.selected.settings, ", selected")
    texts = [f"{_in_words(arm, x)}: {number(mean)}{remark or chosen.get(x, '')}" for x, mean in means.items()]
    return [setting.lr for setting in means], [*means.values()], texts


def _in_words(arm: ArmResults, setting: Setting) -> str:
    extra = "".join(f", {name} {value}" for name, value in setting.extra)
    return f"{arm.optimizer}, rate {rate(setting.lr)}{extra}"


def _draw_lost(panel: Panel, arms: Sequence[ArmResults], styles: ArmStyles, worst: float) -> None:
    """Draw crosses at the rates at which trials diverged, stacked from the panel's edge where arms share a rate."""
    step = CROSS_HEIGHT / panel.inner_height * (1 if worst == 0 else -1)
    drawn = Counter[float]()
    rates = (
        (arm, sorted({run.lr for run in (*arm.sweep, *arm.confirm) if run.status == "diverged" and run.lr}))
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
        panel.summary.extend(f"{text}." for text in texts)
        drawn.update(lost)
