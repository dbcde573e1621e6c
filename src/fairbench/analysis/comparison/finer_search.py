"""What a finer search of the learning rate could still gain for an arm.

Final trials have rates half a step of the grid apart. Two optimizers that are equally good at their own best rates may
differ at the tried ones, since one best rate lies on the grid and the other between two of its rates.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from fairbench.analysis.results import ArmResults, Run
from fairbench.common.grouping import grouped
from fairbench.suites.search import FINAL_STEP, Search, Setting


def finer_gain(arm: ArmResults, search: Search, metric: str, sign: float, seeds: int) -> float | None:
    """What a finer search could gain for an arm, by the parabola through its best rate and the two next to it.

        a = (lower + higher) / 2,    b = (higher - lower) / 2
        gain = max(a / 4, b^2 / (4 a))

    `lower` and `higher` say how much worse the validation metric is at the next lower and the next higher rate. The
    vertex of the parabola lies b^2 / (4 a) above the best rate, and half a step beside a vertex costs a / 4. A rate
    at which trainings diverge has no value: the loss then may continue as on the other side, up to that rate.

    Args:
        arm: an arm with its trials of stage 2.
        search: the search of its optimizer.
        metric: the primary metric.
        sign: the factor that makes higher values of the metric better.
        seeds: the first seeds that count.

    Returns:
        The gain, at least 0. None if no rate was tried on one side of the best one, so that it is unknown. 0 for an arm
        of which only one rate has final trials: nothing was searched there.
    """
    if arm.selected is None or not arm.others or not arm.sweep:
        return 0.0
    runs = _runs_of_rates(arm, arm.selected)
    best = _values(arm.final[:seeds], metric, sign)
    index = search.index(arm.selected.lr)
    sides = []
    for step in (-FINAL_STEP, FINAL_STEP):
        neighbor = runs.get(search.rate(index + step))
        if neighbor is None:
            return None
        sides.append(_shortfall(neighbor, best, metric, sign))
    return _parabola_gain(*sides)


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


def _parabola_gain(lower: float | None, higher: float | None) -> float | None:
    """The gain by the shortfalls of both neighbors, see `finer_gain`; None for a side means that it diverged."""
    if lower is None and higher is None:
        return None
    if lower is None or higher is None:
        slope = higher if lower is None else lower
        return max(slope or 0.0, 0.0)
    a = (lower + higher) / 2
    b = (higher - lower) / 2
    if a > 0 and abs(b) <= 2 * a:
        return max(a / 4, b * b / (4 * a))
    return max(-lower, -higher, 0.0)
