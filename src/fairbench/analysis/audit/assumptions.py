"""Checks of the statistical test of a suite: whether the seeds meet its assumptions, and whether they are enough."""

from collections.abc import Iterator, Mapping
from math import exp, hypot, log, sqrt
from statistics import fmean

from scipy import special

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.interim_analyses import design_of
from fairbench.analysis.comparison.left_out_seed import without_seed
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import Results
from fairbench.analysis.statistics.power import minimum_detectable_effect
from fairbench.analysis.statistics.significance import critical_t, summarize
from fairbench.common.checks import check
from fairbench.common.formatting import plain, some
from fairbench.suites.stages import TESTS

SPREAD_RATIO = 2.0
"""The ratio of the spreads from which both tests may reject equal means too often."""
CORRELATION = -0.3
"""The correlation from which Welch's test may reject equal means too often."""
ODD = 0.01
"""The level of the test whether one seed is unlike the others."""


def spread_limit(seeds: int, arenas: int) -> float:
    """The ratio of the spreads of two arms, a geometric mean over arenas, from which on it is flagged.

    It is at least 2. It also exceeds 95% of the ratios that equal spreads give by chance with normal seeds:

        exp(1.96 sqrt(psi'((n - 1) / 2) / (2 k))),    n seeds, k arenas; psi' is the trigamma function
    """
    trigamma = special.polygamma(1, (seeds - 1) / 2)
    by_chance = exp(1.96 * sqrt(trigamma / (2 * arenas)))
    return max(SPREAD_RATIO, by_chance)


def correlation_limit(seeds: int, arenas: int) -> float:
    """The correlation of two arms over the seeds, a mean over arenas, from which on downwards it is flagged.

    It is at most -0.3. It is also below 95% of the correlations that independent seeds give by chance:

        -1.645 / sqrt(k (n - 1)),    n seeds, k arenas
    """
    by_chance = -1.645 / sqrt(arenas * (seeds - 1))
    return min(CORRELATION, by_chance)


@check("limits of the test", "warn", "Claim only differences far above the larger spread.")
def beyond_test(case: Analyses) -> Iterator[str]:
    """In a pair that is better or worse one arm spreads twice as much, or Welch's test has negative correlation."""
    # the runs of a program that cannot be seeded are independent, whatever their seeds are called
    seeded = all(plan.model.get("seeded", True) for plan in case.suite.arenas.values())
    welch = case.suite.final.test == "welch" and seeded
    for optimizer, baseline in case.suite.pairs:
        pair = [c for c in case.comparisons if (c.optimizer, c.baseline) == (optimizer, baseline)]
        average = ", on average over the arenas" if len(pair) > 1 else ""
        if not any(c.verdict in ("better", "worse") for c in pair):
            continue  # no claim rests on the test
        seeds = pair[0].seeds
        log_ratios = [log(c.std_baseline / c.std_optimizer) for c in pair if c.std_optimizer and c.std_baseline]
        if log_ratios:
            ratio = exp(fmean(log_ratios))
            if max(ratio, 1 / ratio) >= spread_limit(seeds, len(log_ratios)):
                yield f"{_spread_in_words(optimizer, baseline, ratio)}{average}; this matters where values are skewed"
        correlations = [c.seed_correlation for c in pair if c.seed_correlation is not None]
        if welch and correlations:
            correlation = fmean(correlations)
            if correlation <= correlation_limit(seeds, len(correlations)):
                arms = f"{baseline} and {optimizer}"
                found = f"the seeds of {arms} have a correlation of {correlation:.2f}{average}"
                yield f"{found}; the paired test allows it (`--set 'final.test=\"paired\"'`)"


def _spread_in_words(optimizer: str, baseline: str, ratio: float) -> str:
    """Which of two arms spreads more, and how many times as much; the ratio is that of the baseline's spread."""
    if ratio < 1:
        return f"{optimizer} spreads {1 / ratio:.2g} times as much as {baseline}"
    return f"{baseline} spreads {ratio:.2g} times as much as {optimizer}"


@check(
    "one seed decides",
    "warn",
    "Look at the trials of the seed that is named; take more seeds (`--seeds N`) in a new study, and leave none out.",
)
def one_seed(case: Analyses) -> Iterator[str]:
    """Without one single seed, which is far from all others, the interval of a gain would contain 0 or exclude it."""
    for c in case.comparisons:
        if c.test != "paired" or c.ci_low is None or c.ci_high is None or c.ci_level is None:
            continue
        seed = _odd_seed(_gains(case.results, c))
        if seed is None:
            continue
        rest = without_seed(c, seed, case.comparisons, case.results)
        if rest.ci_low is None or rest.ci_high is None:
            continue
        contains = c.ci_low <= 0 <= c.ci_high
        would_contain = rest.ci_low <= 0 <= rest.ci_high
        if would_contain != contains:
            word = "contain" if would_contain else "exclude"
            yield f"{case.title(c)}: without seed {seed}, far from the others, the interval would {word} 0"


def _gains(results: Results, c: Comparison) -> dict[int, float]:
    """The gain in each seed of a comparison."""
    ours = results.arm(c.arena, c.optimizer).scores_by_seed(c.metric)
    theirs = results.arm(c.arena, c.baseline).scores_by_seed(c.metric)
    gains = {}
    for seed in results.study.suite.final.seeds[: c.seeds]:
        gains[seed] = c.sign * (ours[seed] - theirs[seed])
    return gains


def _odd_seed(gains: Mapping[int, float]) -> int | None:
    """The seed whose gain is far from all others; None if there is none, or with fewer than 4 seeds.

        |x_i - m_i| > t s_i sqrt(1 + 1 / (n - 1)),    m_i and s_i of the n - 1 others

    t is the critical value at 1% for n seeds: of comparisons with normal seeds, one in a hundred has such a seed.

    Source: Grubbs, "Sample criteria for testing outlying observations", Ann. Math. Stat. 1950.
    """
    if len(gains) < 4:
        return None
    critical = critical_t(ODD / (2 * len(gains)), len(gains) - 2)
    for seed, gain in gains.items():
        rest = summarize([each for other, each in gains.items() if other != seed])
        if abs(gain - rest.mean) > critical * rest.std * sqrt(1 + 1 / rest.n):
            return seed
    return None


@check(
    "low power",
    "warn",
    "Take more seeds (`--seeds N`) in a new study, or read inconclusive as meant: these seeds cannot decide.",
)
def low_power(case: Analyses) -> str:
    """A comparison is inconclusive, and its seeds can detect no difference, or only those that exceed the margin."""
    suite = case.suite
    alpha = suite.alpha
    test = suite.final.test
    seeds = len(suite.final.seeds)
    family = len(case.comparisons)
    if family == 0:
        return ""
    # with interim analyses, the last one has only a share of alpha
    share = design_of(suite).shares[-1]
    alone = minimum_detectable_effect(seeds, share * alpha, test)
    strictest = minimum_detectable_effect(seeds, share * (alpha / family), test)
    if alone is None or strictest is None:
        return f"alpha = {alpha:g}: with fewer than 2 seeds there is no test."
    too_few = []
    for c in case.comparisons:
        detectable = strictest * _spread(c)
        if c.verdict == "inconclusive" and detectable > case.margin(c):
            too_few.append(_undetected(case, c, detectable))
    if not too_few:
        return ""
    corrected = ""
    if family > 1:
        corrected = f", or {strictest:.1f} at the strictest step of Holm's correction ({alpha:g}/{family})"
    return (
        f"With {seeds} seeds in each arm, the test alone detects a difference with 80% power only if it is at least "
        f"{alone:.1f} standard deviations {TESTS[test]} (a single comparison at {alpha:g}){corrected}. "
        f"That exceeds the margin in {some(too_few)}."
    )


def _undetected(case: Analyses, c: Comparison, detectable: float) -> str:
    """A comparison in words, with the smallest difference that its seeds detect, and the seeds that it needs."""
    seeds = ""
    if c.seeds_needed:
        seeds = f": {c.seeds_needed} seeds"
    return f"{case.title(c)} ({plain(detectable, '.2g')}, margin {case.margin(c):g}{seeds})"


def _spread(c: Comparison) -> float:
    """The standard deviation that the test divides by, see `TESTS`; 0 for one seed.

    For Welch's test it is pooled over both arms.
    """
    if c.test == "paired":
        return c.std_difference or 0.0
    both = hypot(c.std_optimizer or 0.0, c.std_baseline or 0.0)
    return both / sqrt(2)
