"""How many final seeds each arm of a study needs."""

from fairbench.study.plan import Lookup, ResolvedSuite, SeedsNeeded


def seeds_needed(study: ResolvedSuite, lookup: Lookup) -> SeedsNeeded:
    """How many final seeds each arm needs, as far as the records decide it, in whatever order they came.

    It needs all of them, or in a study with interim analyses those that its comparisons call for.
    """
    if not study.suite.final.interim_analyses:
        return study.suite.all_seeds
    # it imports scipy, which planning a study without interim analyses does not need
    from fairbench.analysis.comparison.interim_analyses import judge_interim_analyses

    return judge_interim_analyses(study, lookup).seeds
