"""The gain of an optimizer over a baseline seed by seed: at the end, and at each evaluation of the training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import Results, Run
from fairbench.analysis.statistics.significance import difference_test


@dataclass(frozen=True)
class GainAtStep:
    """The gain of an optimizer over a baseline at a step of the training, on the validation split.

    Attributes:
        gain: mean over the seeds that both have, positive where the optimizer is better.
        ci_low, ci_high: the 95% confidence interval by the suite's test, without a correction for the number of
            comparisons; None where there is no proper test.
        n: number of seeds.
    """

    step: int
    gain: float
    ci_low: float | None
    ci_high: float | None
    n: int


def final_gains(results: Results, comparison: Comparison) -> list[float]:
    """The gain of each seed that finished in both arms, by the final test metric, in the order of the seeds."""
    ours = results.arm(comparison.arena, comparison.optimizer).scores_by_seed(comparison.metric)
    theirs = results.arm(comparison.arena, comparison.baseline).scores_by_seed(comparison.metric)
    return [comparison.sign * (ours[seed] - theirs[seed]) for seed in ours if seed in theirs]


def gain_curve(results: Results, comparison: Comparison) -> list[GainAtStep]:
    """The gain at each step at which all seeds that finished in both arms were evaluated; empty without such seeds."""
    ours = _curves(results.arm(comparison.arena, comparison.optimizer).final, comparison.metric)
    theirs = _curves(results.arm(comparison.arena, comparison.baseline).final, comparison.metric)
    seeds = [seed for seed in ours if seed in theirs]
    if not seeds:
        return []
    test = results.study.suite.final.test
    points = []
    for step in _shared_steps([*(ours[seed] for seed in seeds), *(theirs[seed] for seed in seeds)]):
        our_values = [comparison.sign * ours[seed][step] for seed in seeds]
        their_values = [comparison.sign * theirs[seed][step] for seed in seeds]
        found = difference_test(test, our_values, their_values)
        points.append(GainAtStep(step, found.difference, found.ci_low, found.ci_high, n=len(seeds)))
    return points


def _curves(runs: Sequence[Run], metric: str) -> dict[int, dict[int, float]]:
    """The validation curve of each finished trial, by seed and step."""
    return {run.seed: run.curve(metric) for run in runs if run.status == "finished"}


def _shared_steps(curves: Sequence[Mapping[int, float]]) -> list[int]:
    """The steps that all curves have, in rising order."""
    return sorted(set(curves[0]).intersection(*curves[1:]))
