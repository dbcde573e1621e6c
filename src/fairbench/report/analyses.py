"""What further analyses find of a study, each only where the suite asks for it, and their CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairbench.analysis.causes import Contribution, contributions
from fairbench.analysis.leaderboard import Standing, leaderboard
from fairbench.analysis.profiles import ProfilePoint, TimeToTarget, profile, times_to_target
from fairbench.analysis.ranking import Rank, ranking
from fairbench.analysis.results import Results
from fairbench.analysis.shocks import ShockCost, shock_costs
from fairbench.analysis.verdicts import Comparison
from fairbench.report.tables import Table, costs, of_dataclass

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Analyses:
    """What further analyses found; what is empty is absent from the report.

    Attributes:
        leaderboard: the optimizers over all arenas, where there are some.
        ranking: the place of each arm, where all pairs are compared.
        times: when each arm reached its target, where there are targets.
        profiles: over the arenas, how often an optimizer is nearly the fastest.
        shocks: what shocks cost, where there are some.
        causes: what the rungs of the suite's control ladder contribute.
    """

    leaderboard: Sequence[Standing] = ()
    ranking: Sequence[Rank] = ()
    times: Sequence[TimeToTarget] = ()
    profiles: Sequence[ProfilePoint] = ()
    shocks: Sequence[ShockCost] = ()
    causes: Sequence[Contribution] = ()


def analyse(results: Results, comparisons: Sequence[Comparison]) -> Analyses:
    """All that the study's suite asks for.

    Args:
        results: the study's results.
        comparisons: the verdict table.
    """
    suite, spending = results.study.suite, costs(results)
    times: Sequence[TimeToTarget] = ()
    if any(plan.target is not None for plan in suite.arenas.values()):
        # only the optimizers of timing trials took turns: those of final trials met other moods of the machine
        spent = {(x.arena, x.optimizer): x.train_ms / 1000 for x in spending if x.source == "timing"}
        times = times_to_target(results, spent)
    return Analyses(
        leaderboard(results, comparisons, {(x.arena, x.optimizer): (x.step_ms, x.train_ms) for x in spending}),
        ranking=ranking(results, comparisons) if suite.compare == "all" else (),
        times=times,
        profiles=profile(times) if times else (),
        shocks=shock_costs(results),
        causes=contributions(results),
    )


def csv_tables(analyses: Analyses) -> dict[str, Table]:
    """A table for each analysis that found something, by the name of its file."""
    found: dict[str, tuple[type[DataclassInstance], Sequence[DataclassInstance]]] = {
        "leaderboard.csv": (Standing, analyses.leaderboard),
        "ranking.csv": (Rank, analyses.ranking),
        "time_to_target.csv": (TimeToTarget, analyses.times),
        "profiles.csv": (ProfilePoint, analyses.profiles),
        "shocks.csv": (ShockCost, analyses.shocks),
        "causes.csv": (Contribution, analyses.causes),
    }
    return {name: of_dataclass(kind, rows) for name, (kind, rows) in found.items() if rows}
