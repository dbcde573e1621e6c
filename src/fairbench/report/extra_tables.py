"""The CSV files that only some suites ask for: all pairs give a ranking, targets profiles, ladders causes."""

from collections.abc import Sequence

from fairbench.analysis.causes import Contribution, contributions
from fairbench.analysis.profiles import ProfilePoint, TimeToTarget, profile, times_to_target
from fairbench.analysis.ranking import Rank, ranking
from fairbench.analysis.results import Results
from fairbench.analysis.shocks import ShockCost, shock_costs
from fairbench.analysis.verdicts import Comparison
from fairbench.report.tables import Table, costs, of_dataclass


def extra_tables(results: Results, comparisons: Sequence[Comparison]) -> dict[str, Table]:
    """The tables that the study's suite asks for, by the names of their files.

    Args:
        results: the study's results.
        comparisons: the verdict table.
    """
    suite, found = results.study.suite, {}
    if suite.compare == "all":
        found["ranking.csv"] = of_dataclass(Rank, ranking(results, comparisons))
    if any(plan.target is not None for plan in suite.arenas.values()):
        # only the optimizers of timing trials took turns: those of final trials met other moods of the machine
        spent = {(x.arena, x.optimizer): x.train_ms / 1000 for x in costs(results) if x.source == "timing"}
        times = times_to_target(results, spent)
        found["time_to_target.csv"] = of_dataclass(TimeToTarget, times)
        found["profiles.csv"] = of_dataclass(ProfilePoint, profile(times))
    if costly := shock_costs(results):
        found["shocks.csv"] = of_dataclass(ShockCost, costly)
    if suite.ladder:
        found["causes.csv"] = of_dataclass(Contribution, contributions(results))
    return found
