"""How many final seeds each arm needs: all of them, or in a study with looks those that its comparisons call for."""

from fairbench.study.plan import Lookup, ResolvedSuite, SeedsNeeded


def seeds_needed(study: ResolvedSuite, lookup: Lookup) -> SeedsNeeded:
    """The final seeds that each arm needs, as far as the records decide it, in whatever order they came."""
    suite = study.suite
    if not suite.final.looks:
        return dict.fromkeys(suite.arms, len(suite.final.seeds))
    # it imports scipy, which planning a study without looks does not need
    from fairbench.analysis.comparison.looks import judge_looks

    return judge_looks(study, lookup).seeds
