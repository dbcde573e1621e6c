"""The comparison of two arms of a table, or of an arm with a number, before Holm's correction."""

from dataclasses import replace

from fairbench.analysis.comparison.two_arms import of_values, summarized
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.statistics.significance import Summary
from fairbench.analysis.tables.arms import Arm


def between_arms(begun: Comparison, ours: Arm, theirs: Arm) -> Comparison:
    """A comparison of two arms: by the seeds that both have, or by Welch's test of their summaries."""
    begun = _with_counts(begun, ours, theirs)
    if begun.note:
        return begun
    if ours.given is None and theirs.given is None:
        shared = [seed for seed in ours.values if seed in theirs.values]
        have_the_same = ours.values.keys() == theirs.values.keys()
        if len(shared) > 1 or have_the_same:
            note = ""
            if not have_the_same:
                note = f"{len(shared)} seeds in common, of {ours.size} and {theirs.size}"
            paired = replace(begun, note=note, seeds=len(shared))
            return of_values(paired, ours.values_of(shared), theirs.values_of(shared))
        if ours.size > 1 and theirs.size > 1:
            begun = replace(begun, note=f"Welch's test, {len(shared) or 'no'} seed in common")
    return summarized(begun, ours.summary(), theirs.summary())


def against_number(begun: Comparison, arm: Arm, number: float) -> Comparison:
    """A comparison of a mean with a number: Welch's test with a mean that has no variance."""
    begun = replace(begun, baseline=f"{number:g}", test="one-sample")
    begun = _with_counts(begun, arm, Arm())
    if begun.note:
        return begun
    summary = arm.summary()
    exact = Summary(summary.n, number, 0.0)
    found = summarized(begun, summary, exact)
    return replace(found, test=begun.test, hedges_g=None, std_baseline=None)


def _with_counts(begun: Comparison, ours: Arm, theirs: Arm) -> Comparison:
    """A comparison with the numbers of runs, and its verdict where some are lost."""
    notes = _losses(begun.optimizer, ours) + _losses(begun.baseline, theirs)
    verdict: Verdict = "inconclusive"
    if ours.diverged or theirs.diverged:
        verdict = "diverged"
    elif notes:
        verdict = "incomplete"
    return replace(
        begun,
        verdict=verdict,
        note=", ".join(notes),
        seeds=max(ours.finished, theirs.finished),
        n_optimizer=ours.finished,
        n_baseline=theirs.finished,
        diverged_optimizer=ours.diverged,
        diverged_baseline=theirs.diverged,
    )


def _losses(name: str, arm: Arm) -> list[str]:
    """How many runs of an arm have no value, in words."""
    words = []
    if arm.diverged:
        words.append(f"{name} diverged {arm.diverged}/{arm.size}")
    if arm.without_value:
        words.append(f"{name} without a value {arm.without_value}/{arm.size}")
    return words
