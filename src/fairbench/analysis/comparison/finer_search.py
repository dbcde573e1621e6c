"""What a finer search of the learning rate could still gain for an arm.

Two optimizers that are equally good at their own best rates may differ at the tried ones, since one best rate lies on
the grid and the other between two of its rates.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean

from fairbench.analysis.results import ArmResults, Run
from fairbench.common.grouping import grouped
from fairbench.suites.search import Search, Setting

CUBIC = 1 / (9 * sqrt(3))
"""The largest error of a parabola through three neighboring rates, as a share of the third difference."""


def finer_gain(arm: ArmResults, search: Search, metric: str, sign: float, seeds: int) -> float | None:
    """What a finer search could gain for an arm, by the parabola through its best rate and the rates next to it.

        a = (lower + higher) / 2,    b = (higher - lower) / 2
        gain = b^2 / (4 a) + |third difference| / (9 sqrt(3))

    `lower` and `higher` say how much worse the validation metric is at the next lower and the next higher rate. The
    vertex of the parabola lies b^2 / (4 a) above the best rate. The second term is how far a cubic curve through a
    fourth rate may lie from the parabola. It is large where the parabola does not fit, as in front of a rate at which
    trainings diverge.

    Args:
        arm: an arm with its trials of stage 2.
        search: the search of its optimizer.
        metric: the primary metric.
        sign: the factor that makes higher values of the metric better.
        seeds: the first seeds that count.

    Returns:
        The gain, at least 0. None if it is unknown: no rate was tried on one side of the best one, or trainings diverge
        on both. 0 for an arm of which only one rate has final trials: nothing was searched there.
    """
    if arm.selected is None or not arm.others or not arm.sweep:
        return 0.0
    runs = _runs_of_rates(arm, arm.selected)
    best = _values(arm.final[:seeds], metric, sign)
    index = search.index(arm.selected.lr)
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
        return _gain_beside_divergence(lower, higher)
    return _parabola_gain(lower, higher) + CUBIC * _third_difference(lower, higher, shortfalls)


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


def _gain_beside_divergence(lower: float | None, higher: float | None) -> float | None:
    """The gain where trainings diverge at one neighbor, or at both: None for a neighbor means that they do.

    Between the best rate and that neighbor the metric may get better as fast as on the other side.
    """
    slope = higher if lower is None else lower
    if slope is None:
        return None
    return max(slope, 0.0)


def _parabola_gain(lower: float, higher: float) -> float:
    """How far the vertex of the parabola lies above the best rate. No neighbor is better than that rate."""
    a = (lower + higher) / 2
    b = (higher - lower) / 2
    if a <= 0:
        return 0.0  # all three are equal
    return b / a * b / 4


def _third_difference(lower: float, higher: float, shortfalls: Mapping[int, float | None]) -> float:
    """The absolute third difference of four neighboring rates, the larger one of two; 0 without a fourth rate."""
    differences = [0.0]
    below = shortfalls.get(-2)
    if below is not None:
        differences.append(abs(higher + 3 * lower - below))
    above = shortfalls.get(2)
    if above is not None:
        differences.append(abs(above - 3 * higher - lower))
    return max(differences)
