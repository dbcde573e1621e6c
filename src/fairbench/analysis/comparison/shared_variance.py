"""The spread of a comparison, estimated together with the other comparisons of its arena."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, sqrt

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.moderated import NO_PRIOR, Prior, common_variance, moderated
from fairbench.common.grouping import grouped


def common_variances(comparisons: Sequence[Comparison], seeds: int) -> dict[str, Prior]:
    """The common variance of the paired differences in each arena.

    Args:
        comparisons: comparisons with their own variances, before any correction.
        seeds: the number of seeds of each.
    """
    with_variance = [c for c in comparisons if _has_variance(c, seeds)]
    variances = grouped((c.arena, _variance(c, seeds)) for c in with_variance)
    return {arena: common_variance(values, seeds - 1) for arena, values in variances.items()}


def with_shared_variance(c: Comparison, priors: Mapping[str, Prior]) -> Comparison:
    """The comparison by the moderated t-test: its variance is drawn towards the common one of its arena.

    Only paired comparisons share a variance. Any other comparison keeps its own one.
    """
    prior = priors.get(c.arena, NO_PRIOR)
    seeds = c.n_optimizer
    if not _has_variance(c, seeds) or c.df is None or prior.df == 0:
        return c
    drawn = moderated(_variance(c, seeds), c.df, prior)
    return replace(c, error=sqrt(drawn.variance / seeds), df=drawn.df, prior_df=prior.df)


def _has_variance(c: Comparison, seeds: int) -> bool:
    """Whether a comparison has a variance over the seeds that others may share.

    Metrics near the ends of the range of numbers have none, since their squares are 0 or infinite.
    """
    if c.test != "paired":
        return False
    variance = _variance(c, seeds)
    return variance > 0 and isfinite(variance)


def _variance(c: Comparison, seeds: int) -> float:
    """The variance of the differences of the seeds, from the standard error of their mean."""
    error = c.error or 0.0
    return seeds * (error * error)
