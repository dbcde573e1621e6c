"""What a finer search of the learning rate could still gain for an arm.

Two optimizers that are equally good at their own best rates may differ at the tried ones. One best rate may lie on the
grid, and the other between two of its rates.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import NamedTuple

from fairbench.analysis.results import ArmResults, Run
from fairbench.common.grouping import grouped
from fairbench.suites.search import Search, Setting

CUBIC = 1 / (9 * sqrt(3))
"""The largest error of a parabola through three neighboring rates, as a share of the third difference."""


class FinerSearch(NamedTuple):
    """What a finer search of the learning rate could gain for an arm.

    Attributes:
        lr: the best of the tried rates.
        vertex: by how much the vertex of the parabola through it is better.
        third_differences: the third difference of the metric over four neighboring rates, by the place of the fourth
            rate. Place -2 is two steps of the grid below the best rate. The third difference of a parabola is 0.
        error: how far the true curve may lie from the parabola.
    """

    lr: float
    vertex: float = 0.0
    third_differences: Mapping[int, float] = {}
    error: float = 0.0


def finer_search(arm: ArmResults, search: Search, metric: str, sign: float, seeds: int) -> FinerSearch | None:
    """What a finer search could gain for an arm, by the parabola through its best rate and the rates next to it.

        a = (lower + higher) / 2,    b = (higher - lower) / 2
        vertex = b^2 / (4 a),    error = |third difference| / (9 sqrt(3))

    `lower` and `higher` say how much worse the validation metric is at the next lower and the next higher rate. The
    error is the largest difference between the parabola and a cubic curve through a fourth rate. It is large where the
    parabola does not fit, as next to a rate at which trainings diverge.

    Args:
        arm: an arm with its trials of stage 2.
        search: the search of its optimizer.
        metric: the primary metric.
        sign: the factor that makes higher values of the metric better.
        seeds: the first seeds that count.

    Returns:
        What was found. None if it is unknown: no rate was tried on one side of the best one, or trainings diverge on
        both. Nothing can be gained by an arm of which only one rate has final trials.
    """
    if arm.selected is None:
        return None
    lr = arm.selected.lr
    if not arm.others or not arm.sweep:
        return FinerSearch(lr)
    runs = _runs_of_rates(arm, arm.selected)
    best = _values(arm.final[:seeds], metric, sign)
    index = search.index(lr)
    shortfalls = {}
    for place in (-2, -1, 1, 2):
        neighbor = runs.get(search.rate(index + place))
        if neighbor is not None:
            shortfalls[place] = _shortfall(neighbor, best, metric, sign)
    if -1 not in shortfalls or 1 not in shortfalls:
        return None
    lower = shortfalls[-1]
    higher = shortfalls[1]
    if lower is None or higher is None:
        return _beside_divergence(lr, lower, higher)
    differences = _third_differences(lower, higher, shortfalls)
    largest = max(map(abs, differences.values()), default=0.0)
    return FinerSearch(lr, _vertex(lower, higher), differences, CUBIC * largest)


def changes_of_gain(ours: FinerSearch | None, theirs: FinerSearch | None) -> tuple[float | None, float | None]:
    """How much finer searches of two arms could change the gain of one over the other: for ours, then for theirs.

    Both arms move to their vertices, so what both would gain cancels. Where both have the same best rate, the error is
    that of the difference of their curves. What both curves have in common, such as a rate at which all diverge, then
    changes nothing. None where it is unknown.
    """
    if ours is None and theirs is None:
        return None, None
    if ours is None:
        assert theirs is not None
        return None, theirs.vertex + theirs.error
    if theirs is None:
        return ours.vertex + ours.error, None
    our_error = ours.error
    their_error = theirs.error
    places = ours.third_differences.keys() & theirs.third_differences.keys()
    if ours.lr == theirs.lr and places:
        between = [abs(ours.third_differences[place] - theirs.third_differences[place]) for place in places]
        our_error = CUBIC * max(between)
        their_error = our_error
    in_our_favor = max(ours.vertex - theirs.vertex, 0.0) + our_error
    in_their_favor = max(theirs.vertex - ours.vertex, 0.0) + their_error
    return in_our_favor, in_their_favor


def _runs_of_rates(arm: ArmResults, selected: Setting) -> dict[float, list[Run]]:
    """The trials of the settings that differ from the selected one in the learning rate alone, by their rate."""
    runs = [run for run in arm.others if run.setting is not None and run.setting.extra == selected.extra]
    return grouped((run.setting.lr, run) for run in runs if run.setting is not None)


def _values(runs: Sequence[Run], metric: str, sign: float) -> dict[int, float]:
    """The validation metric of the trials that have one, by seed; higher is better."""
    values = {}
    for run in runs:
        value = run.metric("val", metric)
        if value is not None:
            values[run.seed] = sign * value
    return values


def _shortfall(runs: Sequence[Run], best: Mapping[int, float], metric: str, sign: float) -> float | None:
    """How much worse a rate is than the best one, over the seeds that both have; None if a training diverged."""
    values = _values(runs, metric, sign)
    shared = [seed for seed in values if seed in best]
    if len(values) < len(runs) or not shared:
        return None
    return fmean(best[seed] - values[seed] for seed in shared)


def _beside_divergence(lr: float, lower: float | None, higher: float | None) -> FinerSearch | None:
    """What a finer search could gain where trainings diverge at one neighbor; None where they diverge at both.

    Between the best rate and that neighbor the metric may get better as fast as on the other side.
    """
    slope = higher if lower is None else lower
    if slope is None:
        return None
    return FinerSearch(lr, error=max(slope, 0.0))


def _vertex(lower: float, higher: float) -> float:
    """How far the vertex of the parabola lies above the best rate. No neighbor is better than that rate."""
    a = (lower + higher) / 2
    b = (higher - lower) / 2
    if a <= 0:
        return 0.0  # all three are equal
    return b / a * b / 4


def _third_differences(lower: float, higher: float, shortfalls: Mapping[int, float | None]) -> dict[int, float]:
    """The third difference of four neighboring rates, by the place of the fourth rate, -2 or 2, if it was tried.

    f(1) - 3 f(0) + 3 f(-1) - f(-2)    and    f(2) - 3 f(1) + 3 f(0) - f(-1),    with f(0) = 0
    """
    differences = {}
    below = shortfalls.get(-2)
    if below is not None:
        differences[-2] = higher + 3 * lower - below
    above = shortfalls.get(2)
    if above is not None:
        differences[2] = above - 3 * higher - lower
    return differences
