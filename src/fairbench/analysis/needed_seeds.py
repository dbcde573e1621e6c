"""How many final seeds each arm needs: all of them, or in a study with looks those that its comparisons call for."""

from fairbench.analysis.results import Results, collect
from fairbench.study.plan import Lookup, ResolvedSuite, SeedsNeeded


def seeds_needed(study: ResolvedSuite, lookup: Lookup) -> SeedsNeeded:
    """The final seeds that each arm needs, as far as the records decide it, in whatever order they came."""
    suite = study.suite
    if not suite.final.looks:
        return dict.fromkeys(suite.arms, len(suite.final.seeds))
    return _judged(collect(study, lookup))


def collect_needed(study: ResolvedSuite, lookup: Lookup) -> Results:
    """The results of a study with the final trials that its arms need, as far as its records go."""
    results = collect(study, lookup)
    return results.with_seeds(_judged(results)) if study.suite.final.looks else results


def _judged(results: Results) -> SeedsNeeded:
    # it imports scipy, which planning a study without looks does not need
    from fairbench.analysis.comparison.looks import judge_looks

    return judge_looks(results).seeds
