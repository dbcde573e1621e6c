"""Checks of what Welch's test assumes: seeds that are independent between arms, and spreads that differ little."""

from collections.abc import Iterator
from math import exp, log, sqrt
from statistics import fmean

from scipy import special

from fairbench.analysis.analyses import Analyses
from fairbench.common.checks import check
from fairbench.common.formatting import some

SPREAD_RATIO, CORRELATION = 2.0, -0.3
"""The ratio of the spreads and the correlation from which Welch's test rejects too often."""


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
    "limits of Welch's test",
    "warn",
    "Claim only differences far above the larger spread; with correlated seeds, only what `p_paired` confirms.",
)
def beyond_welch(case: Analyses) -> str:
    """Of two arms with a better or worse, one spreads at least twice as much, or their seeds correlate negatively."""

    def beyond() -> Iterator[str]:
        for reference, baseline in case.suite.pairs:
            pair = [c for c in case.comparisons if (c.reference, c.baseline) == (reference, baseline)]
            if not any(c.verdict in ("better", "worse") for c in pair):
                continue
            ratios = [log(c.std_baseline / c.std_reference) for c in pair if c.std_reference and c.std_baseline]
            correlations = [c.seed_correlation for c in pair if c.seed_correlation is not None]
            ratio, seeds = exp(fmean(ratios or [0.0])), pair[0].seeds
            if ratios and max(ratio, 1 / ratio) >= spread_limit(seeds, len(ratios)):
                yield f"{baseline} spreads {ratio:.2g} times as much as {reference}"
            if correlations and fmean(correlations) <= correlation_limit(seeds, len(correlations)):
                yield f"the seeds of {baseline} and {reference} have a correlation of {fmean(correlations):.2f}"

    return f"{some(flagged, '; ')}, on average over the arenas." if (flagged := [*beyond()]) else ""
