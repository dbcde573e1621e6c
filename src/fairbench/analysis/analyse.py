"""Make every analysis of a study from its plans and records, once."""

from dataclasses import replace

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.comparability import hash_checks
from fairbench.analysis.comparison.controls import contributions
from fairbench.analysis.comparison.leaderboard import leaderboard
from fairbench.analysis.comparison.looks import compare_as_declared
from fairbench.analysis.comparison.ranking import ranking
from fairbench.analysis.comparison.schedules import interactions
from fairbench.analysis.comparison.shocks import shock_costs
from fairbench.analysis.comparison.size_trends import size_trends
from fairbench.analysis.comparison.speedups import speedups
from fairbench.analysis.comparison.time_to_target import profile, times_to_target
from fairbench.analysis.cost import costs
from fairbench.analysis.curves import curves, equal_times
from fairbench.analysis.mechanism import mechanisms
from fairbench.analysis.needed_seeds import collect_needed
from fairbench.analysis.results import aggregates
from fairbench.analysis.tuning import tuning
from fairbench.study.history import History
from fairbench.study.plan import Lookup


def analyse(history: History, lookup: Lookup) -> Analyses:
    """Every analysis of the last plan of a study, as far as its records go.

    Args:
        lookup: returns the record of a trial, or None; always the same one.
    """
    results = collect_needed(history.study, lookup)
    suite = results.study.suite
    comparisons, first_comparisons = compare_as_declared(history, results, lookup)
    arm_costs, learning_curves = costs(results), curves(results)
    at_equal_time, ranks = equal_times(suite, arm_costs, learning_curves), ranking(results, comparisons)
    times = times_to_target(results, arm_costs)
    profiles, faster = profile(times), speedups(results, comparisons)
    analyses = Analyses(
        history,
        results,
        comparisons,
        first_comparisons,
        hash_checks(results),
        aggregates(results),
        arm_costs,
        learning_curves,
        at_equal_time,
        mechanisms(results),
        contributions(results),
        ranks if suite.compare == "all" else [],
        leaderboard(results, comparisons, ranks, arm_costs, faster),
        times,
        profiles,
        shock_costs(results),
        faster,
        *size_trends(results),
        interactions(suite, comparisons),
        tuning(results),
    )
    return replace(analyses, flags=audit(analyses))
