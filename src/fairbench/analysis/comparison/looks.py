"""The looks at a study: its comparisons are judged after some of the final seeds, and the undecided ones get more.

A study without looks is judged once, with all its seeds.
"""

from dataclasses import dataclass, replace

from fairbench.analysis.comparison.verdicts import NOT_DECLARED, Comparison, Verdict, compare, judge
from fairbench.analysis.results import Results, collect
from fairbench.analysis.statistics.sequential import Design, Look
from fairbench.study.history import History
from fairbench.study.plan import Lookup, ResolvedSuite, SeedsNeeded
from fairbench.suites.schema import Suite

CONTINUES: tuple[Verdict, ...] = ("inconclusive", "identical values")
"""The verdicts with which a comparison gets more seeds, where a look follows."""


@dataclass(frozen=True)
class Looks:
    """A study as far as its looks are complete.

    Attributes:
        comparisons: each as of the last look at it, in the order of the suite.
        seeds: the final seeds that each arm needs so far.
        results: the records with these seeds.
    """

    comparisons: list[Comparison]
    seeds: SeedsNeeded
    results: Results


def design_of(suite: Suite) -> Design:
    """The looks of a suite; of one without looks a single one, at all its seeds."""
    return Design(tuple(suite.final.numbers), suite.final.spending, suite.alpha)


def judge_looks(study: ResolvedSuite, lookup: Lookup) -> Looks:
    """Judge every look that is complete.

    A look is complete when no trial of the study is missing that it needs. A decided comparison keeps its seeds, and
    the settings that these selected. The arms of all others get those of the next look, so the reference gets as many
    as the longest comparison needs. While trials of the first look are missing, the comparisons of their arms are
    incomplete. The family of Holm's correction is arenas x pairs as the suite plans them, finished or not.
    """
    suite = study.suite
    design = design_of(suite)
    looks = design.looks
    seeds = dict.fromkeys(suite.arms, looks[0])
    results = collect(study, lookup, seeds)
    judged = judge([compare(results, Look(design, 0), *pair) for pair in suite.compared], suite.alpha)
    for number, more in enumerate(looks[1:], 1):
        if _misses(results):
            break
        undecided = [c.pair for c in judged if c.verdict in CONTINUES]
        # an arena that another one is tuned on selects with as many seeds
        arenas = {arena: {arena, suite.tuned_on(arena)} for arena, *_ in undecided}
        seeds = seeds | {(x, name): more for arena, *pair in undecided for name in pair for x in arenas[arena]}
        results = collect(study, lookup, seeds)
        if _misses(results):
            break
        again = {pair: compare(results, Look(design, number), *pair) for pair in undecided}
        judged = judge([again.get(c.pair, c) for c in judged], suite.alpha)
    return Looks([_with_seeds_in_words(c, looks[-1]) for c in judged], seeds, results)


def _misses(results: Results) -> bool:
    """Whether a trial that is needed has no record; one that failed has."""
    return any(run.record is None for arm in results.arms for run in arm.trials)


def _with_seeds_in_words(c: Comparison, most: int) -> Comparison:
    """A comparison whose note says that it was judged before the last look."""
    if c.seeds == most or c.verdict in ("incomplete", "diverged"):
        return c
    stage = f"after {c.seeds} of {most} seeds{', to be continued' if c.verdict in CONTINUES else ''}"
    return replace(c, note=", ".join(filter(None, (c.note, stage))))


def compare_as_declared(history: History, looks: Looks, lookup: Lookup) -> tuple[list[Comparison], list[Comparison]]:
    """The verdict tables by the last plan and by the plan that was declared before the first final trial.

    The first table names the verdicts of the second as declared. They are the same where no plan is that old.
    """
    comparisons, declared = looks.comparisons, history.declared
    if declared is None:
        return comparisons, comparisons
    first = comparisons if declared is history.plans[-1] else judge_looks(declared.study, lookup).comparisons
    verdicts = {c.pair: c.verdict for c in first}
    return [replace(c, declared=verdicts.get(c.pair, NOT_DECLARED)) for c in comparisons], first
