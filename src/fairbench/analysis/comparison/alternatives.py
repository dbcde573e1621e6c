"""The settings of an arm that validation cannot separate from the selected one. A verdict must hold with each."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, product

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.analysis.statistics.sequential import InterimAnalysis
from fairbench.analysis.statistics.significance import difference_test, paired_t

DEPENDS = "depends on the setting"
"""The note of a comparison whose verdict would not hold with each of these settings."""


def with_any_setting(c: Comparison, results: Results, interim_analysis: InterimAnalysis, alpha: float) -> Comparison:
    """A judged comparison. It becomes inconclusive if a win or a loss depends on which setting was selected.

    Args:
        c: the comparison at the interim analysis.
        results: the records with the seeds of the interim analysis.
        interim_analysis: the interim analysis.
        alpha: the family-wise error rate.
    """
    if c.verdict not in ("better", "worse"):
        return c
    ours = alternatives(results.arm(c.arena, c.optimizer), c.metric, c.seeds, alpha)
    theirs = alternatives(results.arm(c.arena, c.baseline), c.metric, c.seeds, alpha)
    pairs_of_settings = [*product(ours, theirs)]
    if len(pairs_of_settings) == 1:
        return c  # only the selected settings, by which it is judged already
    if all(_holds(c, our_runs, their_runs, interim_analysis, alpha) for our_runs, their_runs in pairs_of_settings):
        return c
    return replace(c, verdict="inconclusive", note=DEPENDS)


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
    if test.p is None:  # the same difference in every seed
        return test.difference != 0
    return test.p < alpha


def _holds(c: Comparison, ours: list[Run], theirs: list[Run], interim_analysis: InterimAnalysis, alpha: float) -> bool:
    """Whether a verdict holds with the trials of other settings.

    It holds if the gain is not smaller, or if it has the same sign and is significant. The p-value is corrected by the
    factor of Holm's correction that the comparison got.
    """
    our_gains = [c.sign * value for value in _scores(ours, "test", c.metric)]
    their_gains = [c.sign * value for value in _scores(theirs, "test", c.metric)]
    test = difference_test(c.test, our_gains, their_gains)
    ratio = test.difference / (c.gain or 1.0)
    if ratio >= 1:
        return True  # the gain is not smaller
    holm_factor = 1.0
    if c.p:
        holm_factor = (c.p_holm or 1.0) / c.p
    p = interim_analysis.repeated(test.p)
    return ratio > 0 and p is not None and p * holm_factor < alpha


def _scores(runs: list[Run], split: str, metric: str) -> list[float]:
    """The values of a metric in the trials that have it."""
    values = [run.metric(split, metric) for run in runs]
    return [value for value in values if value is not None]
