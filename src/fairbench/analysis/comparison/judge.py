"""The verdicts on a family of comparisons: Holm's correction, and the interval that decides each of them."""

from collections.abc import Sequence
from dataclasses import replace
from math import floor, inf, isclose, log2

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.power import paired_seeds, welch_seeds
from fairbench.analysis.statistics.sequential import InterimAnalysis
from fairbench.analysis.statistics.significance import critical_t, holm, holm_levels, sign_p, upper_tail
from fairbench.common.errors import UsageError

ROUNDING = 1e-6
"""The largest relative difference between two evaluations of the same weights that rounding explains."""
FINER = "a finer search may change this"
"""The note of a comparison that would be decided if no optimizer had a better learning rate between those tried."""
WIDER = "a wider search may change this"
"""The note of a comparison that would be decided if the best rate did not lie at the edge of those tried."""
MIN_SEEDS = 4
"""The fewest seeds of an optimizer with which a comparison is decided by its own spread alone."""
FEWEST_SEEDS = 3
"""The fewest seeds with which it is decided if the other comparisons of its arena tell the spread as well."""


def judge(family: Sequence[Comparison], alpha: float, min_seeds: int = MIN_SEEDS) -> list[Comparison]:
    """Give each comparison of a family its p-values, its interval and its verdict.

    Args:
        family: the comparisons that are corrected together. They have a gain, its error and degrees of freedom.
        alpha: the family-wise error rate, of better and worse together, and of equivalent.
        min_seeds: the fewest seeds of an optimizer with which its own spread alone decides.

    Raises:
        UsageError: alpha does not lie between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, as 0.05 for 5%; got {alpha:g}")
    tested = [_tested(comparison) for comparison in family]
    p_values = [c.p for c in tested]
    equivalence_p_values = [c.p_equivalence for c in tested]
    corrected = zip(
        tested,
        holm(p_values),
        holm_levels(p_values, alpha),
        holm(equivalence_p_values),
        holm_levels(equivalence_p_values, alpha),
        strict=True,
    )
    judged = []
    for comparison, p_holm, level, p_equivalence_holm, equivalence_level in corrected:
        c = replace(comparison, p_holm=p_holm, p_equivalence_holm=p_equivalence_holm)
        c = replace(c, seeds_needed=_seeds_needed(c, alpha / len(family)))
        c = _decided(c, alpha, level, equivalence_level, min_seeds)
        outside = level * c.share
        if c.verdict == "equivalent":
            outside = 2 * equivalence_level * c.share
        judged.append(with_interval(c, outside))
    return judged


def _tested(c: Comparison) -> Comparison:
    """The comparison with its three p-values, before Holm's correction.

        p = 2 P(T > (|gain| - finer) / error)
        p_equivalence = P(T > (margin - largest gain) / error)
        p_no_worse = P(T > (margin + lowest gain) / error)

    `finer` is what a finer search could still gain for the optimizer that is worse. The lowest and the largest gain are
    those that a finer search could make, the largest one in either direction. What is unknown of a finer search counts
    as infinite. A comparison without an error is judged by the sign test if every pair differs by the same amount.
    Otherwise it keeps the p-value that it has: 1 if no seed differs, otherwise None.

    Source: Schuirmann, "A comparison of the two one-sided tests procedure ...", J. Pharmacokinet. Biopharm. 1987.
    """
    if _has_same_difference(c):
        return _sign_tested(c)
    if c.error is None or c.df is None or c.gain is None:
        return c
    highest = c.gain + _known(c.finer_optimizer)
    lowest = c.gain - _known(c.finer_baseline)
    remaining = max(lowest, -highest)
    interim_analysis = InterimAnalysis(c.seeds, c.share)
    p: float | None = 1.0
    if remaining > 0:
        p = interim_analysis.repeated(2 * upper_tail(remaining / c.error, c.df))
    tested = replace(c, t=c.gain / c.error, p=p)
    if c.margin is None:
        return tested
    largest = max(highest, -lowest)
    p_equivalence = upper_tail((c.margin - largest) / c.error, c.df)
    p_no_worse = upper_tail((c.margin + lowest) / c.error, c.df)
    return replace(
        tested,
        p_equivalence=interim_analysis.repeated(p_equivalence),
        p_no_worse=interim_analysis.repeated(p_no_worse),
    )


def _has_same_difference(c: Comparison) -> bool:
    """Whether every pair of a comparison differs by the same amount, so that it has no error."""
    return c.test == "paired" and c.error is None and c.p is not None and bool(c.gain)


def _sign_tested(c: Comparison) -> Comparison:
    """The comparison with its p-values by the sign test. All n differences are the gain, so they lie on one side.

        p = 2 (1/2)^n,    p_equivalence = p_no_worse = (1/2)^n where the gain lies inside the margin

    They are 1 where a finer search could bring the gain to the other side.
    """
    assert c.gain is not None
    highest = c.gain + _known(c.finer_optimizer)
    lowest = c.gain - _known(c.finer_baseline)
    interim_analysis = InterimAnalysis(c.seeds, c.share)
    two_sided = interim_analysis.repeated(sign_p(c.n_optimizer))
    one_sided = interim_analysis.repeated(sign_p(c.n_optimizer) / 2)
    tested = replace(c, p=two_sided if max(lowest, -highest) > 0 else 1.0)
    if c.margin is None:
        return tested
    return replace(
        tested,
        p_equivalence=one_sided if max(highest, -lowest) < c.margin else 1.0,
        p_no_worse=one_sided if -lowest < c.margin else 1.0,
    )


def _known(finer: float | None) -> float:
    """What a finer search could still gain for an optimizer; infinite if that is unknown."""
    if finer is None:
        return inf
    return finer


def _decided(c: Comparison, alpha: float, level: float, equivalence_level: float, min_seeds: int) -> Comparison:
    """The comparison with its verdict and its note. One that has another verdict already keeps it.

    Args:
        c: a comparison with its corrected p-values.
        alpha: the family-wise error rate.
        level: the level of its step of Holm's correction.
        equivalence_level: that of the test for equivalence.
        min_seeds: see `judge`.
    """
    if c.verdict != "inconclusive":
        return c  # an arm is incomplete or diverged, or all values are identical
    if c.identical_seeds and c.identical_seeds == c.seeds:
        return _with_same_weights(c)
    notes = [c.note] if c.note else []
    if c.identical_seeds:
        notes.append(f"the same weights in {c.identical_seeds} of {c.seeds} seeds")
    few_seeds = _too_few(c, min_seeds)
    if few_seeds:
        notes.append(few_seeds)
        return replace(c, note="; ".join(notes))
    is_real = c.p_holm is not None and c.p_holm < alpha and c.gain != 0
    is_equivalent = c.p_equivalence_holm is not None and c.p_equivalence_holm < alpha
    if is_equivalent:
        if is_real:
            notes.append("real, within the margin")
        return replace(c, verdict="equivalent", note="; ".join(notes))
    if not is_real:
        notes += _open_search(c, level, equivalence_level)
        return replace(c, note="; ".join(notes))
    if (c.gain or 0.0) > 0:
        return replace(c, verdict="better", note="; ".join(notes))
    return replace(c, verdict="worse", note="; ".join(notes))


def _with_same_weights(c: Comparison) -> Comparison:
    """The comparison of two arms that ended with the same weights in every seed."""
    ours = c.mean_optimizer or 0.0
    theirs = c.mean_baseline or 0.0
    if isclose(ours, theirs, rel_tol=ROUNDING):
        return replace(c, verdict="identical", note="the same weights in every seed")
    return replace(c, note="a contradiction: the same weights in every seed, other values")


def _too_few(c: Comparison, min_seeds: int) -> str:
    """Why a comparison has too few seeds for a verdict, in words; empty if it has enough."""
    if c.error is None:
        return ""  # there is no test, which has a note already
    seeds = c.n_optimizer
    if c.test == "paired":
        seeds = c.seeds
    elif c.test == "welch":
        seeds = min(c.n_optimizer, c.n_baseline)
    needed = min_seeds
    if c.prior_df > 0:
        needed = min(min_seeds, FEWEST_SEEDS)
    if seeds >= needed:
        return ""
    return f"{seeds} seeds decide nothing, {needed} are needed"


def _open_search(c: Comparison, level: float, equivalence_level: float) -> list[str]:
    """The note of an undecided comparison that its gain at the tried rates would decide; empty if it would not."""
    if c.error is None:
        return []
    inside = replace(c, finer_optimizer=c.finer_optimizer or 0.0, finer_baseline=c.finer_baseline or 0.0)
    if _passes(inside, level, equivalence_level):
        return [WIDER]
    plain = replace(c, finer_optimizer=0.0, finer_baseline=0.0)
    if _passes(plain, level, equivalence_level):
        return [FINER]
    return []


def _passes(c: Comparison, level: float, equivalence_level: float) -> bool:
    """Whether a test of a comparison is below its level."""
    tested = _tested(c)
    is_real = tested.p is not None and tested.p < level
    is_equivalent = tested.p_equivalence is not None and tested.p_equivalence < equivalence_level
    return is_real or is_equivalent


def with_interval(c: Comparison, outside: float) -> Comparison:
    """The comparison with an interval of its gain.

        gain - t error - finer_baseline  to  gain + t error + finer_optimizer

    t is the critical value. What is unknown of a finer search is left out. If every pair differs by the same amount,
    the interval of the sign test has no width. With too few pairs for the level there is none.

    Args:
        c: the comparison.
        outside: the share of such intervals that do not cover the true gain. For the interval that decides a verdict,
            it is the level of the step of Holm's correction: of the two one-sided tests for "equivalent", otherwise of
            the two-sided test.
    """
    if c.gain is None:
        return c
    highest = c.gain + (c.finer_optimizer or 0.0)
    lowest = c.gain - (c.finer_baseline or 0.0)
    if _has_same_difference(c):
        smallest = sign_p(c.n_optimizer)
        if smallest > outside:
            return c
        return replace(c, ci_low=lowest, ci_high=highest, ci_level=1 - smallest)
    if c.error is None or c.df is None:
        return c
    if not outside > 0:
        return c  # this interim analysis has no part of the level
    half_width = critical_t(outside / 2, c.df) * c.error
    return replace(c, ci_low=lowest - half_width, ci_high=highest + half_width, ci_level=1 - outside)


def _seeds_needed(c: Comparison, level: float) -> int | None:
    """The number of seeds of each arm with which the test alone detects the margin; None without a margin or a test.

    If every pair differs by the same amount, it is the smallest number with which the sign test can be significant.
    """
    if _has_same_difference(c):
        return 1 + floor(1 - log2(level))
    if c.margin is None or c.t is None:
        return None
    if c.test == "paired":
        return paired_seeds(c.margin, c.std_difference or 0.0, level)
    return welch_seeds(c.margin, c.std_optimizer or 0.0, c.std_baseline or 0.0, level)
