"""Checks of the statistical power of the seeds."""

from math import sqrt

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.looks import design_of
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.power import minimum_detectable_effect
from fairbench.common.checks import check
from fairbench.common.formatting import plain, some


@check("low power", "warn", "Take more final seeds, or read inconclusive as it is meant: these seeds cannot decide.")
def low_power(case: Analyses) -> str:
    """A comparison is inconclusive, and its seeds can detect no difference, or only those that exceed the margin."""
    suite, family = case.suite, len(case.comparisons)
    n, alpha, design = len(suite.final.seeds), suite.alpha, design_of(suite)
    alone = minimum_detectable_effect(n, design.last_level(alpha))
    strictest = minimum_detectable_effect(n, design.last_level(alpha / max(family, 1)))
    if alone is None or strictest is None:
        return f"alpha = {alpha:g}: with fewer than 2 seeds there is no test." if family else ""
    too_few = [
        f"{case.title(c)} ({plain(strictest * spread, '.2g')}, margin {case.margin(c):g}"
        f"{f': {c.seeds_needed} seeds' if c.seeds_needed else ''})"
        for c in case.comparisons
        if c.verdict == "inconclusive" and (spread := _spread(c)) and strictest * spread > case.margin(c)
    ]
    corrected = f", or {strictest:.1f} at the strictest step of Holm's correction ({alpha:g}/{family})"
    return (
        f"With {n} seeds in each arm, a difference is detected with 80% power only if it is at least {alone:.1f} "
        f"standard deviations between seeds (a single comparison at {alpha:g}){corrected if family > 1 else ''}. "
        f"That exceeds the margin in {some(too_few)}."
        if too_few
        else ""
    )


def _spread(c: Comparison) -> float:
    """The standard deviation between the seeds of two arms, pooled; 0 with fewer than two seeds."""
    return sqrt(((c.std_reference or 0.0) ** 2 + (c.std_baseline or 0.0) ** 2) / 2)
