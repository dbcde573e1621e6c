"""Make every analysis of a study from its plans and records, once."""

from dataclasses import replace

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.comparability import hash_checks
from fairbench.analysis.comparison.ladder import contributions
from fairbench.analysis.comparison.leaderboard import leaderboard
from fairbench.analysis.comparison.ranking import ranking
from fairbench.analysis.comparison.shocks import shock_costs
from fairbench.analysis.comparison.time_to_target import profile, times_to_target
from fairbench.analysis.comparison.verdicts import compare_as_declared
from fairbench.analysis.cost import costs
from fairbench.analysis.curves import curves, equal_times
from fairbench.analysis.mechanism import mechanisms
from fairbench.analysis.results import aggregates, collect
from fairbench.study.history import History
from fairbench.study.plan import Lookup


def analyse(history: History, lookup: Lookup) -> Analyses:
    """Every analysis of the study in force, as far as its records go.

    Args:
        history: the plans of the study; the last one is analysed.
        lookup: returns the record of a trial, or None; always the same one.
    """
    results = collect(history.study, lookup)
    comparisons, first = compare_as_declared(history, results, lookup)
    spent, learning = costs(results), curves(results)
    equal, places = equal_times(results.study.suite, spent, learning), ranking(results, comparisons)
    times = times_to_target(results, spent)
    profiles = profile(times)
    analyses = Analyses(
        history,
        results,
        comparisons,
        first,
        hash_checks(results),
        aggregates(results),
        spent,
        learning,
        equal,
        mechanisms(results),
        contributions(results),
        places if results.study.suite.compare == "all" else [],
        leaderboard(results, comparisons, places, spent),
        times,
        profiles,
        shock_costs(results),
    )
    return replace(analyses, flags=audit(analyses))
