"""The settings of an arm that validation cannot tell apart: a verdict must hold with each of them."""

from dataclasses import replace
from itertools import groupby, product

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.analysis.statistics.sequential import Look
from fairbench.analysis.statistics.significance import difference_test, paired_t

DEPENDS = "depends on the setting"
"""The note of a comparison whose better or worse would not hold with each of these settings."""


def with_any_setting(c: Comparison, results: Results, look: Look, alpha: float) -> Comparison:
    """A judged comparison; inconclusive if its better or worse would not hold with a setting that might be selected.

    Args:
        c: the comparison at the look.
        results: the records with the seeds of the look.
        look: where it is judged.
        alpha: the family-wise error rate.
    """
    if c.verdict not in ("better", "worse"):
        return c
    arms = (results.arm(c.arena, name) for name in (c.optimizer, c.baseline))
    settings = [*product(*(alternatives(arm, c.metric, c.seeds, alpha) for arm in arms))]
    if len(settings) == 1 or all(_holds(c, a, b, look, alpha) for a, b in settings):
        return c
    return replace(c, verdict="inconclusive", note=DEPENDS)


def alternatives(arm: ArmResults, metric: str, seeds: int, alpha: float) -> list[list[Run]]:
    """The first seeds at the selected setting, and at each with as many seeds that validation cannot separate."""
    of_settings = (arm.final, *([*runs] for _, runs in groupby(arm.others, lambda run: run.setting)))
    selected, *others = (
        [run for run in runs[:seeds] if None not in (run.metric("val", metric), run.metric("test", metric))]
        for runs in of_settings
    )

    def separated(runs: list[Run]) -> bool:
        test = paired_t(*(_scores(x, "val", metric) for x in (runs, selected)))
        return test.difference != 0 if test.p is None else test.p < alpha  # the same difference in every seed

    return [selected, *(runs for runs in others if len(runs) == len(selected) == seeds and not separated(runs))]


def _holds(c: Comparison, ours: list[Run], theirs: list[Run], look: Look, alpha: float) -> bool:
    """Whether the gain with these trials is not smaller, or significant at the step of Holm's correction of c."""
    a, b = ([c.sign * value for value in _scores(runs, "test", c.metric)] for runs in (ours, theirs))
    test, strictness = difference_test(c.test, a, b), (c.p_holm or 1.0) / c.p if c.p else 1.0
    p, ratio = look.repeated(test.p), test.difference / (c.gain or 1.0)
    return ratio >= 1 or (ratio > 0 and p is not None and p * strictness < alpha)


def _scores(runs: list[Run], split: str, metric: str) -> list[float]:
    return [value for run in runs if (value := run.metric(split, metric)) is not None]
