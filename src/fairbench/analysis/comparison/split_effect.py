"""The choice of the test examples as a source of variance.

All seeds use one validation split and one test split. Where the two prefer different settings, more seeds do not help:
another test split would give other gains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from math import hypot, sqrt
from statistics import fmean, variance

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.analysis.statistics.significance import binary_unit, summarize


@dataclass(frozen=True)
class SplitEffect:
    """How much more the settings of an arena differ between validation and test than their seeds explain.

        x_ci = val - test of setting c in seed i, minus the mean of seed i over all settings
        ratio = n sum_c mean_i(x_ci)^2 / (C - 1) / s^2,    s^2 = sum_ci (x_ci - mean_i x_ci)^2 / ((C - 1) (n - 1))

    Without an effect of the splits the expected ratio is about 1.

    Attributes:
        ratio: the mean square between settings, divided by the mean square within them.
        df: degrees of freedom of the mean square between settings.
    """

    ratio: float
    df: int


NO_SPLIT_EFFECT = SplitEffect(1.0, 1)


def split_effect(results: Results, arena: str, seeds: int) -> SplitEffect:
    """The effect of the splits in an arena, from all settings whose trials have both metrics in the first seeds."""
    metric = results.study.suite.arenas[arena].metric
    rows = []
    for arm in results.of(arena):
        rows += _rows(arm, metric, seeds)
    if len(rows) < 2 or seeds < 2:
        return NO_SPLIT_EFFECT
    unit = binary_unit(*chain.from_iterable(rows))  # squares of scaled values do not overflow
    rows = [[value / unit for value in row] for row in rows]
    seed_means = [fmean(column) for column in zip(*rows, strict=True)]
    between = 0.0
    within = 0.0
    for row in rows:
        centered = [value - mean for value, mean in zip(row, seed_means, strict=True)]
        between += seeds * fmean(centered) ** 2
        within += (seeds - 1) * variance(centered)
    df = len(rows) - 1
    if within == 0:
        return NO_SPLIT_EFFECT  # there is no second split, or the program reports the same for both
    return SplitEffect(between / within * (seeds - 1), df)


def _rows(arm: ArmResults, metric: str, seeds: int) -> list[list[float]]:
    """The differences between validation and test in each seed, of each setting of an arm that has all seeds."""
    settings = [arm.final[:seeds]]
    for _, runs in groupby(arm.others, lambda run: run.setting):
        settings.append([*runs][:seeds])
    rows = [split_differences(runs, metric) for runs in settings]
    return [row for row in rows if len(row) == seeds]


def split_differences(runs: Sequence[Run], metric: str) -> list[float]:
    """The validation metric minus the test metric of the trials that have both."""
    differences = []
    for run in runs:
        on_validation = run.metric("val", metric)
        on_test = run.metric("test", metric)
        if on_validation is not None and on_test is not None:
            differences.append(on_validation - on_test)
    return differences


def with_split_error(c: Comparison, results: Results, effect: SplitEffect) -> Comparison:
    """The comparison with the part of the error that the choice of the test examples makes.

        split_error^2 = max(0, ratio - 1) w / 2,    w = var(x_optimizer - x_baseline) / n
        df = error^4 / (error_seeds^4 / df_seeds + split_error^4 / df_ratio)

    x is val - test of an arm in a seed. The ratio of the arena is applied to the variance of the pair, so that two
    optimizers that end with nearly the same weights have nearly no such error. Half of the variance is that of test.

    Source: Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics Bull. 1946.
    """
    ours = split_differences(results.arm(c.arena, c.optimizer).final[: c.seeds], c.metric)
    theirs = split_differences(results.arm(c.arena, c.baseline).final[: c.seeds], c.metric)
    is_complete = len(ours) == len(theirs) == c.seeds
    if c.error is None or c.df is None or c.seeds < 2 or not is_complete:
        return c
    differences = [x - y for x, y in zip(ours, theirs, strict=True)]
    error_of_pair = summarize(differences).std / sqrt(c.seeds)
    split_error = sqrt(max(effect.ratio - 1, 0.0) / 2) * error_of_pair
    error = hypot(c.error, split_error)
    if error == 0:
        return c
    share_of_seeds = (c.error / error) ** 4 / c.df
    share_of_split = (split_error / error) ** 4 / effect.df
    return replace(c, error=error, split_error=split_error, df=1 / (share_of_seeds + share_of_split))
