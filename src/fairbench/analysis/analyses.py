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
    """The records of the last plan of a study, and what is computed from them, as far as they go.

    An analysis is a function of this object. `analyses.of(speedups)` is `speedups(analyses)`, computed when it is first
    asked for and then kept, so an analysis may ask for others, and nothing is computed that nobody asks for. The lookup
    returns the record of a trial, or None; always the same one.
    """

    def __init__(self, history: History, lookup: Lookup) -> None:
        self.history = history
        self.lookup = lookup
        self._made: dict[Callable[[Analyses], Any], Any] = {}

    def of(self, analysis: Callable[["Analyses"], T]) -> T:
        """The result of an analysis, computed once."""
        if analysis not in self._made:
            self._made[analysis] = analysis(self)
        made: T = self._made[analysis]
        return made

    @cached_property
    def _interim(self) -> InterimResults:
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
    def comparisons(self) -> Sequence[Comparison]:
        """The verdict table, in the order of the suite, with the verdicts of the first one as declared."""
        found = self._interim.comparisons
        if self.history.declared is None:
            return found
        declared = {c.pair: c.verdict for c in self.first_comparisons}
        return [replace(c, declared=declared.get(c.pair, NOT_DECLARED)) for c in found]

    @cached_property
    def first_comparisons(self) -> Sequence[Comparison]:
        """The verdict table by the plan that was declared before the first final trial, if any, without `declared`."""
        last = self.history.plans[-1]
        first = self.history.declared or last
        if first is last:
            return self._interim.comparisons
        return judge_interim_analyses(first.study, self.lookup).comparisons

    def title(self, c: Comparison) -> str:
        """A comparison in words."""
        return self.suite.pair_title(*c.pair)

    def margin(self, c: Comparison) -> float:
        """The largest difference that does not matter in a comparison."""
        return self.suite.arenas[c.arena].margin

    def __repr__(self) -> str:
        return f"<Analyses of {self.history.study.suite.name}>"
