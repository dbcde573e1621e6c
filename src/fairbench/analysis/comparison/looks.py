"""The looks at a study: its comparisons are judged after some of the final seeds, and the undecided ones get more.

A study without looks is judged once, with all its seeds.
"""

from dataclasses import dataclass, replace

from fairbench.analysis.comparison.verdicts import NOT_DECLARED, Comparison, Verdict, compare, judge
from fairbench.analysis.results import Results, collect
from fairbench.analysis.statistics.sequential import Design, Look
from fairbench.study.history import History
from fairbench.study.plan import Lookup, SeedsNeeded
from fairbench.suites.schema import Suite

CONTINUES: tuple[Verdict, ...] = ("inconclusive", "identical values")
"""The verdicts with which a comparison gets more seeds, where a look follows."""


@dataclass(frozen=True)
class Looks:
    """A study as far as its looks are complete.

    Attributes:
        comparisons: each as of the last look at it, in the order of the suite.
        seeds: the final seeds that each arm needs so far.
    """

    comparisons: list[Comparison]
    seeds: SeedsNeeded


def design_of(suite: Suite) -> Design:
    """The looks of a suite; of one without looks a single one, at all its seeds."""
    return Design(tuple(suite.final.looks or [len(suite.final.seeds)]), suite.final.spending, suite.alpha)


def judge_looks(results: Results) -> Looks:
    """Judge every look that is complete.

    A look is complete when no trial of the study is missing that it needs. A decided comparison keeps its seeds. The
    arms of all others get those of the next look, so the reference gets as many as the longest comparison needs. While
    trials of the first look are missing, the comparisons of their arms are incomplete. The family of Holm's correction
    is arenas x pairs as the suite plans them, finished or not.
    """
    suite = results.study.suite
    design = design_of(suite)
    looks = design.looks
    seeds = {(arm.arena, arm.optimizer): looks[0] for arm in results.arms}
    pairs = suite.compared
    judged = judge([compare(results, looks[0], Look(design, 0), *pair) for pair in pairs], suite.alpha)
    for number, more in enumerate(looks[1:], 1):
        if _misses(results, seeds):
            break
        undecided = [pair for pair, c in zip(pairs, judged, strict=True) if c.verdict in CONTINUES]
        seeds |= {(arena, name): more for arena, *pair in undecided for name in pair}
        if _misses(results, seeds):
            break
        again = {pair: compare(results, more, Look(design, number), *pair) for pair in undecided}
        judged = judge([again.get(pair, c) for pair, c in zip(pairs, judged, strict=True)], suite.alpha)
    return Looks([_with_seeds_in_words(c, looks[-1]) for c in judged], seeds)


def _misses(results: Results, seeds: SeedsNeeded) -> bool:
    """Whether a trial that these seeds call for has no record; one that failed has."""
    needed = (run for arm in results.with_seeds(seeds).arms for run in arm.trials)
    return any(run.record is None for run in needed)


def _with_seeds_in_words(c: Comparison, most: int) -> Comparison:
    """A comparison whose note says that it was judged before the last look."""
    if c.seeds == most or c.verdict in ("incomplete", "diverged"):
        return c
    stage = f"after {c.seeds} of {most} seeds{', to be continued' if c.verdict in CONTINUES else ''}"
    return replace(c, note=", ".join(filter(None, (c.note, stage))))


def compare_as_declared(
    history: History, results: Results, lookup: Lookup
) -> tuple[list[Comparison], list[Comparison]]:
    """The verdict tables by the last plan and by the plan that was declared before the first final trial.

    The first table names the verdicts of the second as declared. They are the same where no plan is that old.
    """
    comparisons, declared = judge_looks(results).comparisons, history.declared
    if declared is None:
        return comparisons, comparisons
    first = comparisons if declared is history.plans[-1] else judge_looks(collect(declared.study, lookup)).comparisons
    verdicts = {c.pair: c.verdict for c in first}
    return [replace(c, declared=verdicts.get(c.pair, NOT_DECLARED)) for c in comparisons], first
