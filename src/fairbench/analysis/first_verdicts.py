"""The verdicts on an arena whose trials have ended, while those of other arenas still run."""

from fairbench.study.plan import Lookup
from fairbench.study.resolved_suite import ResolvedSuite


def first_verdicts(study: ResolvedSuite, lookup: Lookup, arena: str) -> str:
    """The verdicts on an arena in a sentence; empty if the suite compares nothing there, or has interim analyses.

    The correction counts every comparison of the suite, and those of other arenas with p = 1. A difference or an
    equivalence that is found so is still found when they have ended.
    """
    suite = study.suite
    if suite.final.interim_analyses or not any(pair[0] == arena for pair in suite.compared):
        return ""
    # this module imports scipy, which a driver needs only now
    from fairbench.analysis.comparison.interim_analyses import judge_interim_analyses

    judged = []
    for comparison in judge_interim_analyses(study, lookup).comparisons:
        if comparison.arena == arena:
            judged.append(f"{comparison.optimizer} against {comparison.baseline}: {comparison.verdict}")
    return f"{arena} has ended, first verdicts: {'; '.join(judged)} (inconclusive ones may still change)"
