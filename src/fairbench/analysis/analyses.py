"""All analyses of a study; tables, figures, page and audit are functions of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairbench.analysis.comparability import HashCheck
from fairbench.analysis.comparison.controls import Contribution
from fairbench.analysis.comparison.leaderboard import Standing
from fairbench.analysis.comparison.ranking import Rank
from fairbench.analysis.comparison.schedules import Interaction
from fairbench.analysis.comparison.shocks import ShockCost
from fairbench.analysis.comparison.size_trends import LadderLaw, SizeTrend
from fairbench.analysis.comparison.speedups import Speedup
from fairbench.analysis.comparison.time_to_target import ProfilePoint, TimeToTarget
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.cost import Cost
from fairbench.analysis.curves import Curve, EqualTime
from fairbench.analysis.mechanism import Mechanism, Quantity
from fairbench.analysis.results import Aggregate, Results
from fairbench.analysis.tuning import Tuning
from fairbench.common.checks import Flag
from fairbench.common.formatting import plural
from fairbench.study.history import History
from fairbench.suites.schema import Suite


@dataclass(frozen=True, repr=False)
class Analyses:
    """Every analysis of a study, made once by `fairbench.analysis.analyse.analyse`.

    Attributes:
        history: the plans of the study; the last one is analysed.
        results: its records by arm.
        comparisons: the verdict table, in the order of the suite.
        first_comparisons: the verdict table by the plan that was declared before the first final trial.
        curves: the learning curve of each arm, by arena and optimizer.
        contributions: empty without a control ladder.
        ranking: empty unless all pairs are compared.
        leaderboard: empty with fewer than 3 optimizers or 2 arenas.
        times_to_target, profiles: empty without targets.
        shock_costs: empty without a disturbed arena.
        speedups: empty unless the reference has a curve over horizons.
        ladder_laws, size_trends: empty without a ladder.
        interactions: empty unless the schedule is a factor.
        tuning: empty without a complete search.
        flags: the flags that the audit raises.
    """

    history: History
    results: Results
    comparisons: Sequence[Comparison]
    first_comparisons: Sequence[Comparison]
    hash_checks: Sequence[HashCheck]
    aggregates: Sequence[Aggregate]
    costs: Sequence[Cost]
    curves: Mapping[tuple[str, str], Curve]
    equal_times: Sequence[EqualTime]
    mechanisms: Sequence[Mechanism]
    contributions: Sequence[Contribution]
    ranking: Sequence[Rank]
    leaderboard: Sequence[Standing]
    times_to_target: Sequence[TimeToTarget]
    profiles: Sequence[ProfilePoint]
    shock_costs: Sequence[ShockCost]
    speedups: Sequence[Speedup]
    ladder_laws: Sequence[LadderLaw]
    size_trends: Sequence[SizeTrend]
    interactions: Sequence[Interaction]
    tuning: Sequence[Tuning]
    flags: Sequence[Flag] = ()

    def __repr__(self) -> str:
        compared = plural(len(self.comparisons), "comparison")
        return f"<Analyses of {self.suite.name}: {compared}, {plural(len(self.flags), 'flag')}>"

    @property
    def suite(self) -> Suite:
        """The suite of the plan that is analysed."""
        return self.results.study.suite

    @property
    def quantities(self) -> list[Quantity]:
        """Every quantity of every mechanism, in the order of the suite."""
        return [quantity for mechanism in self.mechanisms for quantity in mechanism.quantities]

    @property
    def failed(self) -> int:
        """The number of failed trials."""
        return len(self.results.select(lambda run: run.status == "failed"))

    def title(self, c: Comparison) -> str:
        """A comparison in words."""
        return self.suite.pair_title(c.arena, c.reference, c.baseline)

    def margin(self, c: Comparison) -> float:
        """The largest difference that does not matter in a comparison."""
        return self.suite.arenas[c.arena].margin
