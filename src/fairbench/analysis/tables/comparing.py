"""The comparison of two arms of a table, or of an arm with a number, before Holm's correction."""

from dataclasses import replace

from fairbench.analysis.comparison.two_arms import of_values, summarized
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.statistics.significance import Summary
from fairbench.analysis.tables.arms import Arm


def between_arms(comparison: Comparison, ours: Arm, theirs: Arm) -> Comparison:
    """Compare two arms by the seeds that both have, or else by Welch's test of their summaries.

    If a run of either arm is lost, only the counts, the verdict and the note are set.
    """
    comparison = _with_counts(comparison, ours, theirs)
    if comparison.note:  # a run is lost
        return comparison
    if ours.given is None and theirs.given is None:
        shared = [seed for seed in ours.values if seed in theirs.values]
        have_the_same = ours.values.keys() == theirs.values.keys()
        if len(shared) > 1 or have_the_same:
            note = ""
            if not have_the_same:
                note = f"{len(shared)} seeds in common, of {ours.size} and {theirs.size}"
            paired = replace(comparison, note=note, seeds=len(shared))
            return of_values(paired, ours.values_of(shared), theirs.values_of(shared))
        if ours.size > 1 and theirs.size > 1:
            comparison = replace(comparison, note=f"Welch's test, {len(shared) or 'no'} seed in common")
    return summarized(comparison, ours.summary(), theirs.summary())


def against_number(comparison: Comparison, arm: Arm, number: float) -> Comparison:
    """Compare the mean of an arm with a number. It is Welch's test with a second mean that has no variance."""
    comparison = replace(comparison, baseline=f"{number:g}", test="one-sample")
    comparison = _with_counts(comparison, arm, theirs=Arm())
    if comparison.note:  # a run is lost
        return comparison
    summary = arm.summary()
    number_as_summary = Summary(n=summary.n, mean=number, std=0.0)
    tested = summarized(comparison, summary, number_as_summary)
    # summarized() calls the test "welch" and fills in a spread, but a number has no spread
    return replace(tested, test=comparison.test, hedges_g=None, std_baseline=None)


def _with_counts(comparison: Comparison, ours: Arm, theirs: Arm) -> Comparison:
    """Set the numbers of runs. If runs are lost, set a note and a verdict too; otherwise the note is empty."""
    notes = _losses(comparison.optimizer, ours) + _losses(comparison.baseline, theirs)
    verdict: Verdict = "inconclusive"
    if ours.diverged or theirs.diverged:
        verdict = "diverged"
    elif notes:
        verdict = "incomplete"
    return replace(
        comparison,
        verdict=verdict,
        note=", ".join(notes),
        seeds=max(ours.finished, theirs.finished),
        n_optimizer=ours.finished,
        n_baseline=theirs.finished,
        diverged_optimizer=ours.diverged,
        diverged_baseline=theirs.diverged,
    )


def _losses(name: str, arm: Arm) -> list[str]:
    """The numbers of runs of an arm that are lost, in words."""
    words = []
    if arm.diverged:
        words.append(f"{name} diverged {arm.diverged}/{arm.size}")
    if arm.without_value:
        words.append(f"{name} without a value {arm.without_value}/{arm.size}")
    return words
