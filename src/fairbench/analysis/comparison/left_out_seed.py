"""A comparison without one of its seeds, with an interval of the same level."""

from collections.abc import Sequence
from dataclasses import replace

from fairbench.analysis.comparison.interim_analyses import with_all_errors
from fairbench.analysis.comparison.judge import with_interval
from fairbench.analysis.comparison.shared_variance import common_variances
from fairbench.analysis.comparison.two_arms import compare
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import Results
from fairbench.analysis.statistics.sequential import InterimAnalysis


def without_seed(c: Comparison, seed: int, family: Sequence[Comparison], results: Results) -> Comparison:
    """A comparison as if a seed had not been run. Its settings, and the level of its interval, stay as they are.

    All parts of the interval are computed again without this seed, as for a verdict: the gain, its error over the
    seeds and over the choice of the test examples, the variance that the arena shares, and what a finer search could
    gain.

    Args:
        c: the comparison. It has an interval.
        seed: one of its seeds.
        family: all comparisons of the study.
        results: the records of the study.

    Returns:
        The comparison of the other seeds. Its interval is None if they leave none.
    """
    assert c.ci_level is not None
    seeds = results.study.suite.final.seeds[: c.seeds]
    kept = [other for other in seeds if other != seed]
    others = _results_of(kept, results)
    interim_analysis = InterimAnalysis(len(kept), c.share)
    # these share a variance with it
    pairs = [other.pair for other in family if other.arena == c.arena and other.seeds == c.seeds]
    compared = [compare(others, interim_analysis, *pair) for pair in pairs]
    priors = common_variances(compared, interim_analysis.seeds)
    by_pair = {other.pair: other for other in with_all_errors(compared, priors, others)}
    return with_interval(by_pair[c.pair], 1 - c.ci_level)


def _results_of(seeds: Sequence[int], results: Results) -> Results:
    """The records of a study, of its final trials only those of some seeds."""
    arms = []
    for arm in results.arms:
        final = [run for run in arm.final if run.seed in seeds]
        others = [run for run in arm.others if run.seed in seeds]
        arms.append(replace(arm, final=final, others=others))
    return Results(results.study, arms)
