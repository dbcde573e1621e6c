"""The time of each variant of a program against that of its baseline, by the pairs of final trials."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.judge import MIN_SEEDS
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import Results, Run
from fairbench.analysis.statistics.significance import critical_t, holm, holm_levels, paired_t
from fairbench.study.record import TrialCost

Costs = Sequence[tuple[TrialCost, TrialCost]]
"""The costs of a variant and of its baseline in some pairs."""
OTHER_LOAD = 0.25
"""Trials during which other processes used more cores than this have no time that is compared."""
FARTHEST = 60.0
"""The seconds between the trials of a pair, besides the time of one trial, up to which they ran next to each other."""


@dataclass(frozen=True)
class PairTimes:
    """The time of a variant divided by that of its baseline: geometric means over pairs, with intervals.

    The verdict is about the time of a trial, which the user waits for. Holm's correction is for all rows.

    Attributes:
        pairs: the pairs whose trials ran next to each other, each alone on its machine.
        step_ratio, step_low, step_high: of the seconds of a step.
        trial_ratio, trial_low, trial_high: of the seconds of a whole trial.
        level: the share of such intervals that cover the true ratio.
        p_holm: corrected p-value of the paired t-test of the logarithms of the trials' seconds.
        verdict: "faster", "slower", "inconclusive" or "not comparable".
        note: why there is no verdict.
    """

    arena: str
    optimizer: str
    baseline: str
    pairs: int
    step_ratio: float | None = None
    step_low: float | None = None
    step_high: float | None = None
    trial_ratio: float | None = None
    trial_low: float | None = None
    trial_high: float | None = None
    level: float | None = None
    p_holm: float | None = None
    verdict: str = "not comparable"
    note: str = ""


def pair_times(analyses: Analyses) -> list[PairTimes]:
    """The times of all compared pairs of a study of variants; empty for any other study."""
    suite = analyses.suite
    if suite.noun != "variant":
        return []
    compared = [(c, _costs_of_pairs(analyses.results, c)) for c in analyses.comparisons]
    p_values = [_p_value(costs) for _, costs in compared]
    corrected = zip(compared, holm(p_values), holm_levels(p_values, suite.alpha), strict=True)
    rows = []
    for (comparison, costs), p_holm, level in corrected:
        row = PairTimes(comparison.arena, comparison.optimizer, comparison.baseline, len(costs))
        if len(costs) < MIN_SEEDS:
            rows.append(replace(row, note=_shortage(analyses.results, comparison, len(costs))))
            continue
        rows.append(_judged(row, costs, p_holm, level, suite.alpha))
    return rows


def _costs_of_pairs(results: Results, c: Comparison) -> Costs:
    """The costs of the variant and of its baseline in each pair whose times are comparable."""
    theirs = {run.seed: run for run in results.arm(c.arena, c.baseline).final}
    costs = []
    for run in results.arm(c.arena, c.optimizer).final:
        other = theirs.get(run.seed)
        if other is None or not run.cost or not other.cost:
            continue
        if _is_undisturbed(run.cost) and _is_undisturbed(other.cost) and _are_neighbors(run, other):
            costs.append((run.cost, other.cost))
    return costs


def _is_undisturbed(cost: TrialCost) -> bool:
    """Whether a trial had its machine to itself, and was not throttled."""
    return cost.alone and cost.other_load is not None and cost.other_load <= OTHER_LOAD and not cost.throttled


def _are_neighbors(run: Run, other: Run) -> bool:
    """Whether two trials of one plan ran next to each other."""
    if not run.record or not other.record or not run.cost or not other.cost:
        return False
    if not run.record.plan or not other.record.plan:
        return False  # such as those of `fairbench noise`, which are older than their partners
    end = datetime.fromisoformat(run.record.written)
    other_end = datetime.fromisoformat(other.record.written)
    apart = abs((end - other_end).total_seconds())
    return apart <= max(run.cost.seconds.total, other.cost.seconds.total) + FARTHEST


def _p_value(costs: Costs) -> float | None:
    """The p-value of the test that both trials of a pair take equally long; None with too few pairs."""
    if len(costs) < MIN_SEEDS:
        return None
    return paired_t(*_logs(costs, _trial_seconds)).p


def _trial_seconds(cost: TrialCost) -> float:
    """The seconds of a whole trial."""
    return cost.seconds.total


def _step_seconds(cost: TrialCost) -> float:
    """The seconds of a trial, start and evaluations included, divided by its steps."""
    return cost.seconds.total / cost.steps


def _logs(costs: Costs, seconds: Callable[[TrialCost], float]) -> tuple[list[float], list[float]]:
    """The logarithms of the seconds of both trials of each pair."""
    ours = [math.log(seconds(cost)) for cost, _ in costs]
    theirs = [math.log(seconds(cost)) for _, cost in costs]
    return ours, theirs


def _judged(row: PairTimes, costs: Costs, p_holm: float | None, level: float, alpha: float) -> PairTimes:
    """The row of a pair with its ratios, their intervals and its verdict.

    ratio = exp(mean(d)),    d_i = log(our seconds) - log(their seconds) in pair i
    """
    trial_ratio, trial_low, trial_high = _ratio(*_logs(costs, _trial_seconds), level)
    step_ratio, step_low, step_high = _ratio(*_logs(costs, _step_seconds), level)
    verdict = "inconclusive"
    if p_holm is not None and p_holm < alpha:
        verdict = "faster" if trial_ratio < 1 else "slower"
    return replace(
        row,
        step_ratio=step_ratio,
        step_low=step_low,
        step_high=step_high,
        trial_ratio=trial_ratio,
        trial_low=trial_low,
        trial_high=trial_high,
        level=1 - level,
        p_holm=p_holm,
        verdict=verdict,
    )


def _ratio(ours: Sequence[float], theirs: Sequence[float], level: float) -> tuple[float, float | None, float | None]:
    """The geometric mean of ratios, and its interval at a level of the test, by the logarithms of both."""
    test = paired_t(ours, theirs)
    ratio = math.exp(test.difference)
    if test.error is None or test.df is None:
        return ratio, None, None
    share_in_a_tail = level / 2
    half_width = critical_t(share_in_a_tail, test.df) * test.error
    low = math.exp(test.difference - half_width)
    high = math.exp(test.difference + half_width)
    return ratio, low, high


def _shortage(results: Results, c: Comparison, pairs: int) -> str:
    """Why the times of two variants are not compared, and what to do."""
    costs = [run.cost for name in (c.optimizer, c.baseline) for run in results.arm(c.arena, name).final if run.cost]
    busy = [cost for cost in costs if not cost.alone or (cost.other_load or 0.0) > OTHER_LOAD]
    if busy:
        count = f"{len(busy)} of {len(costs)} trials"
        return (
            f"other processes used the machine during {count}; run nothing else on it, and one trial at a time (-j 1)"
        )
    return f"{pairs} pairs ran next to each other and undisturbed, {MIN_SEEDS} are needed"
