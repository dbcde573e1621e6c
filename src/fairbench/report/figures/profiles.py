"""Performance profiles: how fast each optimizer reaches the targets of the arenas."""

from collections.abc import Sequence
from itertools import pairwise

from fairbench.analysis.analyses import Analyses
from fairbench.report.figures.canvas import Drawing, finished, panels
from fairbench.report.figures.labels import draw_legend, label_ends, label_space, lines_height
from fairbench.report.figures.panel import draw_line, log_axis
from fairbench.report.figures.style import ArmStyles
from fairbench.report.tables.numbers import percent, three

BEYOND = 1.05
"""The profiles are drawn to this multiple of the largest ratio, so that their last level is seen."""


def draw_profiles(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The performance profile of each optimizer, by steps and by seconds."""
    measures = list(dict.fromkeys(point.measure for point in analyses.profiles))
    if not measures:
        return None
    titles = {measure: f"time in {measure}" for measure in measures}
    figure, by_measure = panels(titles, lines_height(len(styles)), **label_space(styles.values()))
    draw_legend(figure, styles.values())
    for measure, panel in by_measure.items():
        of_measure = [point for point in analyses.profiles if point.measure == measure]
        end = BEYOND * max(point.tau for point in of_measure)
        panel.axes.set_xlabel("multiple of the shortest time")
        panel.axes.set_ylabel("arenas that are solved by then, %")
        log_axis(panel.axes, [1.0, end])
        ends = {}
        for name, style in styles.items():
            points = rises([(point.tau, 100 * point.share) for point in of_measure if point.optimizer == name])
            taus, shares = zip(*points, (end, points[-1][1]), strict=True)
            texts = [
                f"{name}, within {three(tau)} times: {percent(s / 100)}" for tau, s in zip(taus, shares, strict=True)
            ]
            draw_line(panel, style, taus, shares, texts, drawstyle="steps-post")
            ends[style.end] = style, (end, shares[-1])
            panel.summary.append(f"{name}: {percent(shares[0] / 100)} first, {percent(shares[-1] / 100)} in the end.")
        panel.axes.set_ylim(-4, 104)
        label_ends(panel, ends)
    arenas = analyses.profiles[0].arenas
    caption = (
        f"Performance profiles over {arenas} arenas with a target: the share that an optimizer solves within a "
        "multiple of the time of the fastest. It solves an arena when its median seed reaches the target. At 1: the "
        "share in which it is the fastest."
    )
    return finished(figure, by_measure, "profiles", "Performance profiles", caption)


def rises(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points at which a profile is higher than before, and the first; with many arms and arenas few others are."""
    return [points[0], *(point for before, point in pairwise(points) if point[1] > before[1])]
