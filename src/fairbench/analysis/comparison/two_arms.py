"""The statistics of two arms of an arena, from the values of their seeds or from summaries."""

from collections.abc import Sequence
from dataclasses import replace

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import ArmResults, Results, Run
from fairbench.analysis.statistics.sequential import InterimAnalysis
from fairbench.analysis.statistics.significance import (
    Summary,
    TTest,
    Values,
    difference_test,
    hedges_g,
    seed_correlation,
    summarize,
    welch,
)
from fairbench.suites.stages import TESTS


def compare(
    results: Results, interim_analysis: InterimAnalysis, arena: str, optimizer: str, baseline: str
) -> Comparison:
    """Compare two arms of a study at an interim analysis, by their seeds alone.

    The results must have the seeds of this analysis. If trials are missing, lost or without a value, only the counts,
    the verdict and the note are set.
    """
    suite = results.study.suite
    plan = suite.arenas[arena]
    ours = results.arm(arena, optimizer)
    theirs = results.arm(arena, baseline)
    our_scores = ours.scores(plan.metric)
    their_scores = theirs.scores(plan.metric)
    comparison = Comparison(
        arena=arena,
        metric=plan.metric,
        direction=suite.direction(arena),
        optimizer=optimizer,
        baseline=baseline,
        test=suite.final.test,
        margin=plan.margin,
        n_optimizer=len(our_scores),
        n_baseline=len(their_scores),
        diverged_optimizer=ours.count("diverged"),
        diverged_baseline=theirs.count("diverged"),
        seeds=interim_analysis.seeds,
        share=interim_analysis.share,
        identical_seeds=_identical_seeds(ours.final, theirs.final),
        tuned_optimizer=ours.tuned,
        tuned_baseline=theirs.tuned,
    )
    arms = (ours, theirs)
    note = _shortage(arms, "missing", "failed")
    if note:
        return replace(comparison, verdict="incomplete", note=note)
    note = _divergence(arms)
    if note:
        return replace(comparison, verdict="diverged", note=note)
    valueless = [arm.optimizer for arm in arms if len(arm.scores(plan.metric)) < len(arm.final)]
    if valueless:
        note = f"finished trials without a value: {' and '.join(valueless)}"
        return replace(comparison, verdict="incomplete", note=note)
    return of_values(comparison, our_scores, their_scores)


def summarized(comparison: Comparison, ours: Summary, theirs: Summary) -> Comparison:
    """Fill in the statistics of two complete arms by Welch's test of their summaries."""
    our_gain = replace(ours, mean=comparison.sign * ours.mean)
    their_gain = replace(theirs, mean=comparison.sign * theirs.mean)
    test = welch(our_gain, their_gain)
    return _filled(replace(comparison, test="welch"), ours, theirs, test)


def of_values(comparison: Comparison, ours: Values, theirs: Values) -> Comparison:
    """Fill in the statistics of two complete arms by the values of every seed, in the same order in both."""
    our_gains = [comparison.sign * value for value in ours]
    their_gains = [comparison.sign * value for value in theirs]
    test = difference_test(comparison.test, our_gains, their_gains)
    (other_name,) = (name for name in TESTS if name != comparison.test)
    other_test = difference_test(other_name, our_gains, their_gains)
    std_difference = None
    if len(ours) > 1:
        differences = [x - y for x, y in zip(ours, theirs, strict=True)]
        std_difference = summarize(differences).std
    filled = replace(
        _filled(comparison, summarize(ours), summarize(theirs), test),
        std_difference=std_difference,
        seed_correlation=seed_correlation(ours, theirs),
        p_other=InterimAnalysis(comparison.seeds, comparison.share).repeated(other_test.p),
    )
    if ours == theirs and comparison.identical_seeds < comparison.seeds:
        # the same values by other weights
        return replace(filled, verdict="identical values", note="in every seed")
    return filled


def _filled(comparison: Comparison, ours: Summary, theirs: Summary, test: TTest) -> Comparison:
    """Fill in the summaries of the arms, and the gain with its error over the seeds.

    The p-value is final only where the test has no error; otherwise `judge` computes it.
    """
    notes = [note for note in (comparison.note, test.reason) if note]
    effect = hedges_g(ours, theirs)
    if effect is not None:
        effect = comparison.sign * effect
    return replace(
        comparison,
        note="; ".join(notes),
        mean_optimizer=ours.mean,
        mean_baseline=theirs.mean,
        gain=test.difference,
        error=test.error,
        hedges_g=effect,
        t=test.t,
        df=test.df,
        p=test.p,
        std_optimizer=_spread(ours),
        std_baseline=_spread(theirs),
    )


def _spread(arm: Summary) -> float | None:
    """The standard deviation of an arm; None for a single seed."""
    if arm.n > 1:
        return arm.std
    return None


def _divergence(arms: Sequence[ArmResults]) -> str:
    """The arms that diverged, in words; empty for none."""
    no_rate = [f"{arm.optimizer} diverged at every rate of the sweep" for arm in arms if arm.diverged]
    if no_rate:
        return ", ".join(no_rate)
    return _shortage(arms, "diverged")


def _shortage(arms: Sequence[ArmResults], *statuses: str) -> str:
    """The arms that have trials of some statuses, in words: "AdamW diverged 2/5". Empty for none."""
    parts = []
    for arm in arms:
        for status in statuses:
            count = arm.count(status)
            if count:
                parts.append(f"{arm.optimizer} {status} {count}/{len(arm.awaited)}")
    return ", ".join(parts)


def _identical_seeds(ours: Sequence[Run], theirs: Sequence[Run]) -> int:
    """The number of seeds in which two arms ended with the same weights."""
    our_weights_by_seed = {run.seed: run.hash("final_weights") for run in ours}
    identical = 0
    for run in theirs:
        weights = run.hash("final_weights")
        if weights is not None and weights == our_weights_by_seed.get(run.seed):
            identical += 1
    return identical
