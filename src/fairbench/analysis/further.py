"""What further analyses find of a study, each only where the suite asks for it, and their CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairbench.analysis.comparison.ladder import Contribution, contributions
from fairbench.analysis.comparison.leaderboard import Standing, leaderboard
from fairbench.analysis.comparison.ranking import Rank, ranking
from fairbench.analysis.comparison.shocks import ShockCost, shock_costs
from fairbench.analysis.comparison.time_to_target import ProfilePoint, TimeToTarget, profile, times_to_target
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.cost import costs
from fairbench.analysis.results import Results

if TYPE_CHECKING:
    pass


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
