"""Checks of what the test of a suite assumes of the seeds, and of what it can find with them."""

from collections.abc import Iterator
from math import exp, hypot, log, sqrt
from statistics import fmean

from scipy import special

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.looks import design_of
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.power import minimum_detectable_effect
from fairbench.common.checks import check
from fairbench.common.formatting import plain, some
from fairbench.suites.stages import TESTS

SPREAD_RATIO, CORRELATION = 2.0, -0.3
"""The ratio of the spreads from which both tests may reject too often, and the correlation from which Welch's does."""


def spread_limit(seeds: int, arenas: int) -> float:
    """The ratio of two spreads, geometric mean over arenas, that is flagged.

    At least 2, and more than 95% of the ratios of two equal spreads if the seeds are normal:

        exp(1.96 sqrt(psi'((n - 1) / 2) / (2 k))),    n seeds, k arenas; psi' is the trigamma function
    """
    return max(SPREAD_RATIO, exp(1.96 * sqrt(special.polygamma(1, (seeds - 1) / 2) / (2 * arenas))))


def correlation_limit(seeds: int, arenas: int) -> float:
    """The correlation over the seeds, mean over arenas, from which on it is flagged.

    At most -0.3, and below 95% of the correlations of independent seeds: -1.645 / sqrt(k (n - 1)).
    """
    return min(CORRELATION, -1.645 / sqrt(arenas * (seeds - 1)))


@check(
    "limits of the test",
    "warn",
    'Claim only differences far above the larger spread; with correlated seeds take `test = "paired"`.',
)
def beyond_test(case: Analyses) -> Iterator[str]:
    """Of two arms with a better or worse, one spreads twice as much, or Welch's test has negatively correlated ones."""
    welch = case.suite.final.test == "welch"
    for optimizer, baseline in case.suite.pairs:
        pair = [c for c in case.comparisons if (c.optimizer, c.baseline) == (optimizer, baseline)]
        if not any(c.verdict in ("better", "worse") for c in pair):
            continue
        ratios = [log(c.std_baseline / c.std_optimizer) for c in pair if c.std_optimizer and c.std_baseline]
        correlations = [c.seed_correlation for c in pair if c.seed_correlation is not None]
        ratio, seeds = exp(fmean(ratios or [0.0])), pair[0].seeds
        if ratios and max(ratio, 1 / ratio) >= spread_limit(seeds, len(ratios)):
            yield f"{baseline} spreads {ratio:.2g} times as much as {optimizer}, on average over the arenas"
        r = fmean(correlations or [0.0])
        if welch and correlations and r <= correlation_limit(seeds, len(correlations)):
            yield f"the seeds of {baseline} and {optimizer} have a correlation of {r:.2f}, on average over the arenas"


@check("low power", "warn", "Take more final seeds, or read inconclusive as it is meant: these seeds cannot decide.")
def low_power(case: Analyses) -> str:
    """A comparison is inconclusive, and its seeds can detect no difference, or only those that exceed the margin."""
    suite, family = case.suite, len(case.comparisons)
    n, alpha, design, test = len(suite.final.seeds), suite.alpha, design_of(suite), suite.final.test
    alone = minimum_detectable_effect(n, design.shares[-1] * alpha, test)
    strictest = minimum_detectable_effect(n, design.shares[-1] * (alpha / max(family, 1)), test)
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
        f"standard deviations {TESTS[test]} (a single comparison at {alpha:g}){corrected if family > 1 else ''}. "
        f"That exceeds the margin in {some(too_few)}."
        if too_few
        else ""
    )


def _spread(c: Comparison) -> float:
    """The standard deviation of the test, see `TESTS`, with Welch's pooled over both arms; 0 for one seed."""
    if c.test == "paired":
        return c.std_difference or 0.0
    return hypot(c.std_optimizer or 0.0, c.std_baseline or 0.0) / sqrt(2)
