"""The settings of an arm that validation cannot tell apart: a verdict must hold with each of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, product

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.analysis.statistics.sequential import InterimAnalysis
from fairbench.analysis.statistics.significance import difference_test, paired_t

DEPENDS = "depends on the setting"
"""The note of a comparison whose better or worse would not hold with each of these settings."""


def with_any_setting(c: Comparison, results: Results, interim_analysis: InterimAnalysis, alpha: float) -> Comparison:
    """A judged comparison; inconclusive if its better or worse would not hold with a setting that might be selected.

    Args:
        c: the comparison at the interim analysis.
        results: the records with the seeds of the interim analysis.
        interim_analysis: where it is judged.
        alpha: the family-wise error rate.
    """
    if c.verdict not in ("better", "worse"):
        return c
    ours = alternatives(results.arm(c.arena, c.optimizer), c.metric, c.seeds, alpha)
    theirs = alternatives(results.arm(c.arena, c.baseline), c.metric, c.seeds, alpha)
    settings = [*product(ours, theirs)]
    if len(settings) == 1:
        return c
    if all(_holds(c, our_runs, their_runs, interim_analysis, alpha) for our_runs, their_runs in settings):
        return c
    return replace(c, verdict="inconclusive", note=DEPENDS)


def alternatives(arm: ArmResults, metric: str, seeds: int, alpha: float) -> list[list[Run]]:
    """The first seeds at the selected setting, and at each with as many seeds that validation cannot separate."""
    selected = _with_values(arm.final[:seeds], metric)
    found = [selected]
    for _, runs in groupby(arm.others, lambda run: run.setting):
        others = _with_values([*runs][:seeds], metric)
        if len(others) == len(selected) == seeds and not _separated(others, selected, metric, alpha):
            found.append(others)
    return found


def _with_values(runs: Sequence[Run], metric: str) -> list[Run]:
    """The trials that have a value of the metric on validation and on test."""
    return [run for run in runs if None not in (run.metric("val", metric), run.metric("test", metric))]


def _separated(runs: list[Run], selected: list[Run], metric: str, alpha: float) -> bool:
    """Whether validation separates a setting from the selected one."""
    test = paired_t(_scores(runs, "val", metric), _scores(selected, "val", metric))
    if test.p is None:  # the same difference in every seed
        return test.difference != 0
    return test.p < alpha


def _holds(c: Comparison, ours: list[Run], theirs: list[Run], interim_analysis: InterimAnalysis, alpha: float) -> bool:
    """Whether the gain with these trials is not smaller, or significant at the step of Holm's correction of c."""
    our_gains = [c.sign * value for value in _scores(ours, "test", c.metric)]
    their_gains = [c.sign * value for value in _scores(theirs, "test", c.metric)]
    test = difference_test(c.test, our_gains, their_gains)
    ratio = test.difference / (c.gain or 1.0)
    if ratio >= 1:
        return True
    strictness = 1.0
    if c.p:
        strictness = (c.p_holm or 1.0) / c.p
    p = interim_analysis.repeated(test.p)
    return ratio > 0 and p is not None and p * strictness < alpha


def _scores(runs: list[Run], split: str, metric: str) -> list[float]:
    """The values of a metric, where there is one."""
    values = [run.metric(split, metric) for run in runs]
    return [value for value in values if value is not None]
