"""The settings of an arm that validation cannot separate from the selected one. A verdict must hold with each."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, product
from math import hypot

from fairbench.analysis.comparison.shared_variance import with_shared_variance
from fairbench.analysis.comparison.two_arms import of_values
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.analysis.statistics.moderated import Prior
from fairbench.analysis.statistics.significance import paired_t, upper_tail

DEPENDS = "depends on the setting"
"""The note of a comparison whose verdict would not hold with each of these settings."""


def with_any_setting(c: Comparison, results: Results, prior: Prior, alpha: float) -> Comparison:
    """A judged comparison. It becomes inconclusive if a win or a loss depends on which setting was selected.

    Args:
        c: the comparison at its interim analysis.
        results: the records with the seeds of the interim analysis.
        prior: the common variance of the arena.
        alpha: the family-wise error rate.
    """
    if c.verdict not in ("better", "worse"):
        return c
    ours = alternatives(results.arm(c.arena, c.optimizer), c.metric, c.seeds, alpha)
    theirs = alternatives(results.arm(c.arena, c.baseline), c.metric, c.seeds, alpha)
    for our_runs, their_runs in product(ours, theirs):
        if not _holds(c, our_runs, their_runs, prior, alpha):
            notes = [c.note] if c.note else []
            return replace(c, verdict="inconclusive", note="; ".join([*notes, DEPENDS]))
    return c


def alternatives(arm: ArmResults, metric: str, seeds: int, alpha: float) -> list[list[Run]]:
    """The trials of the selected setting, and of each setting that validation cannot separate from it.

    Only the first seeds count, and only settings that have all of them.
    """
    selected = _with_values(arm.final[:seeds], metric)
    settings = [selected]
    for _, runs in groupby(arm.others, lambda run: run.setting):
        others = _with_values([*runs][:seeds], metric)
        if len(others) == len(selected) == seeds and not _separated(others, selected, metric, alpha):
            settings.append(others)
    return settings


def _with_values(runs: Sequence[Run], metric: str) -> list[Run]:
    """The trials that have a value of the metric on validation and on test."""
    return [run for run in runs if None not in (run.metric("val", metric), run.metric("test", metric))]


def _separated(runs: list[Run], selected: list[Run], metric: str, alpha: float) -> bool:
    """Whether the values on validation of a setting differ significantly from those of the selected one."""
    test = paired_t(_scores(runs, "val", metric), _scores(selected, "val", metric))
    if test.error is None or test.p is None:  # the same difference in every seed
        return test.difference != 0
    return test.p < alpha


def _holds(c: Comparison, ours: list[Run], theirs: list[Run], prior: Prior, alpha: float) -> bool:
    """Whether a verdict holds with the trials of other settings.

    It holds if the gain is not smaller, or if it has the same sign and p < alpha. This p-value is not corrected for
    the number of comparisons: the selected settings have met that condition already.
    """
    values = of_values(c, _scores(ours, "test", c.metric), _scores(theirs, "test", c.metric))
    other = with_shared_variance(values, {c.arena: prior})
    ratio = (other.gain or 0.0) / (c.gain or 1.0)
    if ratio >= 1:
        return True  # the gain is not smaller
    if ratio <= 0 or other.error is None or other.df is None:
        return False
    error = hypot(other.error, c.split_error or 0.0)
    p = 2 * upper_tail(abs(other.gain or 0.0) / error, other.df)
    return p < alpha * c.share


def _scores(runs: list[Run], split: str, metric: str) -> list[float]:
    """The values of a metric in the trials that have it."""
    values = [run.metric(split, metric) for run in runs]
    return [value for value in values if value is not None]
