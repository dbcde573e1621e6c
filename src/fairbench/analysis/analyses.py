"""The analyses of a study, each made once; tables, figures, page and audit are functions of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from fairbench.analysis.comparison.interim_analyses import InterimResults, judge_interim_analyses
from fairbench.analysis.comparison.verdicts import NOT_DECLARED, Comparison
from fairbench.analysis.results import Results
from fairbench.study.history import History
from fairbench.study.plan import Lookup
from fairbench.suites.schema import Suite

T = TypeVar("T")


class Analyses:
    """The records of the last plan of a study, as far as they go, and the analyses of these records.

    An analysis is a function of this object. `analyses.of(speedups)` is `speedups(analyses)`. It is computed at the
    first call and then kept, so analyses may use each other, and an analysis that nobody asks for costs nothing. The
    lookup returns the record of a trial, or None. It must return the same record each time.
    """

    def __init__(self, history: History, lookup: Lookup) -> None:
        self.history = history
        self.lookup = lookup
        self._kept_results: dict[Callable[[Analyses], Any], Any] = {}

    def of(self, analysis: Callable[["Analyses"], T]) -> T:
        """The result of an analysis, computed once."""
        if analysis not in self._kept_results:
            self._kept_results[analysis] = analysis(self)
        result: T = self._kept_results[analysis]
        return result

    @cached_property
    def _interim(self) -> InterimResults:
        """The records by arm and the verdicts, both as of the interim analyses that are complete."""
        return judge_interim_analyses(self.history.study, self.lookup)

    @cached_property
    def results(self) -> Results:
        """The records by arm."""
        return self._interim.results

    @property
    def suite(self) -> Suite:
        """The suite of the plan that is analysed."""
        return self.results.study.suite

    @cached_property
    def declared_comparisons(self) -> Sequence[Comparison]:
        """The verdict table by the plan that was declared before the first final trial; without one, by the last plan.

        Its field `declared` is empty.
        """
        last = self.history.plans[-1]
        declared = self.history.declared or last
        if declared is last:  # its verdicts are known already
            return self._interim.comparisons
        return judge_interim_analyses(declared.study, self.lookup).comparisons

    @cached_property
    def comparisons(self) -> Sequence[Comparison]:
        """The verdict table by the last plan, in the order of the suite.

        If a plan was declared before the first final trial, the field `declared` has the verdict by that plan.
        Otherwise the field is empty.
        """
        comparisons = self._interim.comparisons
        if self.history.declared is None:
            return comparisons
        declared_verdicts = {c.pair: c.verdict for c in self.declared_comparisons}
        return [replace(c, declared=declared_verdicts.get(c.pair, NOT_DECLARED)) for c in comparisons]

    def title(self, c: Comparison) -> str:
        """The name of a comparison in words."""
        return self.suite.pair_title(*c.pair)

    def margin(self, c: Comparison) -> float:
        """The largest difference that does not matter in a comparison."""
        return self.suite.arenas[c.arena].margin

    def __repr__(self) -> str:
        return f"<Analyses of {self.history.study.suite.name}>"
