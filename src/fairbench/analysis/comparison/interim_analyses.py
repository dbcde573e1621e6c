"""The interim analyses of a study.

Comparisons are judged after some of the final seeds, and the undecided ones get more seeds.

A study without interim analyses is judged once, with all its seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairbench.analysis.comparison.alternatives import with_any_setting
from fairbench.analysis.comparison.finer_search import changes_of_gain, finer_search
from fairbench.analysis.comparison.judge import judge
from fairbench.analysis.comparison.shared_variance import common_variances, with_shared_variance
from fairbench.analysis.comparison.split_effect import SplitEffect, split_effect, with_split_error
from fairbench.analysis.comparison.two_arms import compare
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.results import Results, collect
from fairbench.analysis.statistics.moderated import NO_PRIOR, Prior
from fairbench.analysis.statistics.sequential import Design, InterimAnalysis
from fairbench.study.plan import Lookup, SeedsNeeded
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.schema import Suite

Pair = tuple[str, str, str]
"""The arena, optimizer and baseline of a comparison."""
CONTINUES: tuple[Verdict, ...] = ("inconclusive", "identical values")
"""The verdicts with which a comparison continues to the next interim analysis, if there is one."""


@dataclass(frozen=True)
class InterimResults:
    """The results of a study as far as its interim analyses are complete.

    Attributes:
        comparisons: each comparison as of its last interim analysis, in the order of the suite.
        seeds: the final seeds that each arm needs so far.
        results: the records with these seeds.
    """

    comparisons: list[Comparison]
    seeds: SeedsNeeded
    results: Results


def design_of(suite: Suite) -> Design:
    """The interim analyses of a suite; if it declares none, a single analysis after all its seeds."""
    return Design(interim_analyses=tuple(suite.final.numbers), spending=suite.final.spending, alpha=suite.alpha)


def judge_interim_analyses(study: ResolvedSuite, lookup: Lookup) -> InterimResults:
    """Judge every interim analysis that is complete.

    An interim analysis is complete when no trial that it needs is missing. A decided comparison keeps its
    seeds, and the settings that these selected. The arms of all other comparisons get the seeds of the next
    interim analysis, so the reference gets as many seeds as the longest comparison needs. While trials of the
    first interim analysis are missing, the comparisons of their arms are incomplete. The family of Holm's
    correction is arenas x pairs as the suite plans them, finished or not.
    """
    suite = study.suite
    design = design_of(suite)
    seeds = dict.fromkeys(suite.arms, design.interim_analyses[0])
    judged: dict[Pair, Comparison] = {}
    undecided = suite.compared
    for seed_count, share in zip(design.interim_analyses, design.shares, strict=True):
        interim_analysis = InterimAnalysis(seed_count, share)
        for arena, optimizer, baseline in undecided:
            # an arena that another one is tuned on selects with as many seeds
            for needed_arena in (arena, suite.tuning_arena(arena)):
                seeds[needed_arena, optimizer] = seed_count
                seeds[needed_arena, baseline] = seed_count
        results = collect(study, lookup, seeds)
        complete = not results.select(lambda run: run.record is None)
        # the first interim analysis is judged in any case, so that each comparison has a verdict
        if complete or not judged:
            decided = {pair: c for pair, c in judged.items() if pair not in undecided}
            judged |= _judge_undecided(undecided, decided, results, interim_analysis)
        if not complete:
            break  # the trials of this interim analysis must run first
        undecided = [pair for pair, comparison in judged.items() if comparison.verdict in CONTINUES]
    most_seeds = design.interim_analyses[-1]
    comparisons = [_with_seeds_in_words(comparison, most_seeds) for comparison in judged.values()]
    return InterimResults(comparisons, seeds, results)


def _judge_undecided(
    pairs: Sequence[Pair], decided: Mapping[Pair, Comparison], results: Results, interim_analysis: InterimAnalysis
) -> dict[Pair, Comparison]:
    """Judge the comparisons of an interim analysis.

    Holm's correction is over all comparisons, also those that were decided before. These keep what decided them.

    Args:
        pairs: the comparisons that are not decided.
        decided: those that an earlier interim analysis decided.
        results: the records with the seeds of this interim analysis.
        interim_analysis: the interim analysis.
    """
    seeds = interim_analysis.seeds
    alpha = results.study.suite.alpha
    compared = [compare(results, interim_analysis, *pair) for pair in pairs]
    priors = common_variances(compared, seeds)
    tested = with_all_errors(compared, priors, results)
    judged = {}
    for c in judge([*decided.values(), *tested], alpha):
        if c.pair not in decided:
            judged[c.pair] = with_any_setting(c, results, priors.get(c.arena, NO_PRIOR), alpha)
    return judged


def with_all_errors(compared: Sequence[Comparison], priors: Mapping[str, Prior], results: Results) -> list[Comparison]:
    """The comparisons of an interim analysis with all parts of their errors.

    Args:
        compared: comparisons by their own seeds alone. All have the same seeds.
        priors: the common variance of each arena.
        results: the records with these seeds.
    """
    split_effects: dict[str, SplitEffect] = {}
    complete = []
    for own in compared:
        if own.arena not in split_effects:
            split_effects[own.arena] = split_effect(results, own.arena, own.seeds)
        c = with_shared_variance(own, priors)
        c = with_split_error(c, results, split_effects[c.arena])
        complete.append(_with_finer_search(c, results))
    return complete


def _with_finer_search(c: Comparison, results: Results) -> Comparison:
    """The comparison with what a finer search could still gain for each of its optimizers."""
    study = results.study
    searches = []
    for optimizer in (c.optimizer, c.baseline):
        arm = results.arm(c.arena, optimizer)
        searches.append(finer_search(arm, study.search(optimizer), c.metric, c.sign, c.seeds))
    ours, theirs = changes_of_gain(*searches)
    note = c.note or _selected_elsewhere(c, study)
    return replace(c, finer_optimizer=ours, finer_baseline=theirs, note=note)


def _selected_elsewhere(c: Comparison, study: ResolvedSuite) -> str:
    """What selected the learning rates, in words, where final trials of this arena did not; empty where they did."""
    suite = study.suite
    if not any(map(study.searched, (c.optimizer, c.baseline))):
        return ""
    tuning_arena = suite.tuning_arena(c.arena)
    if tuning_arena != c.arena:
        return f"at learning rates selected in {tuning_arena}"
    if suite.final.settings == 1:
        return "at learning rates that only short trials selected"
    return ""


def _with_seeds_in_words(c: Comparison, most_seeds: int) -> Comparison:
    """The comparison with a note on its seeds, if it was judged before the last interim analysis."""
    if c.seeds == most_seeds or c.verdict in ("incomplete", "diverged"):
        return c
    notes = []
    if c.note:
        notes.append(c.note)
    notes.append(f"after {c.seeds} of {most_seeds} seeds")
    if c.verdict in CONTINUES:
        notes.append("to be continued")
    return replace(c, note=", ".join(notes))
