"""The number of final seeds that each arm of a study needs."""

from fairbench.study.plan import Lookup, SeedsNeeded
from fairbench.study.resolved_suite import ResolvedSuite


def seeds_needed(study: ResolvedSuite, lookup: Lookup) -> SeedsNeeded:
    """The number of final seeds that each arm needs, as far as the records decide it.

    Without interim analyses an arm needs all seeds of the suite. With them, it needs the seeds until its comparisons
    are decided. The order in which the records came does not matter.
    """
    if not study.suite.final.interim_analyses:
        return study.suite.all_seeds
    # this module imports scipy, which planning a study without interim analyses does not need
    from fairbench.analysis.comparison.interim_analyses import judge_interim_analyses

    return judge_interim_analyses(study, lookup).seeds
