"""Checks of the statistical power of the seeds."""

from math import sqrt
from statistics import variance

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit.check import check, some
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.power import minimum_detectable_effect


@check("cannot reach alpha", "warn", "Take more final seeds.")
def cannot_reach_alpha(case: Analyses) -> str:
    """There are too few seeds for any difference to be significant."""
    suite = case.suite
    if not case.comparisons or minimum_detectable_effect(len(suite.final.seeds), suite.alpha):
        return ""
    return f"alpha = {suite.alpha:g}: with fewer than 2 seeds there is no test."


@check("low power", "warn", "Take more final seeds, or read inconclusive as it is meant: these seeds cannot decide.")
def low_power(case: Analyses) -> str:
    """A comparison is inconclusive, and its seeds would find only differences that are larger than the margin."""
    suite, family = case.suite, len(case.comparisons)
    n, alpha = len(suite.final.seeds), suite.alpha
    alone = minimum_detectable_effect(n, alpha)
    strictest = minimum_detectable_effect(n, alpha / max(family, 1))
    if alone is None or strictest is None:
        return ""
    found = [
        f"{case.title(c)} ({strictest * spread:.2g}, margin {case.margin(c):g}{_enough(c)})"
        for c in case.comparisons
        if c.verdict == "inconclusive" and (spread := _spread(case, c)) and strictest * spread > case.margin(c)
    ]
    corrected = f", or {strictest:.1f} at the strictest step of Holm's correction ({alpha:g}/{family})"
    return (
        f"With {n} seeds in each arm, a difference is found with 80% power only if it is at least {alone:.1f} standard "
        f"deviations between seeds (a single comparison at {alpha:g}){corrected if family > 1 else ''}. "
        f"That is more than what matters in {some(found)}."
        if found
        else ""
    )


def _enough(c: Comparison) -> str:
    """The number of seeds that would find the margin at their spread."""
    return f": {c.seeds_needed} seeds" if c.seeds_needed else ""


def _spread(case: Analyses, c: Comparison) -> float:
    """The standard deviation between the seeds of two arms, pooled; 0 if one has fewer than two."""
    seeds = [case.results.arm(c.arena, name).scores(c.metric) for name in (c.reference, c.baseline)]
    return sqrt(sum(map(variance, seeds)) / 2) if min(map(len, seeds)) > 1 else 0.0
