"""The comparison of two arms of a table, or of an arm with a number, before Holm's correction."""

from dataclasses import replace

from fairbench.analysis.comparison.two_arms import of_values, summarized
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.statistics.significance import Summary
from fairbench.analysis.tables.arms import Arm
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural

FEWEST_SHARED = 3
"""The smallest number of seeds in common for the paired test of arms that have more seeds."""
SMALL = 5
"""The number of runs from which Welch's test bears unequal numbers and spreads."""
UNEQUAL = 2.5
"""The ratio of two numbers of runs, or of two standard deviations, from which they are very unequal."""


def between_arms(comparison: Comparison, ours: Arm, theirs: Arm, test: str) -> Comparison:
    """Compare two arms by the seeds that both have, or else by Welch's test of their summaries.

    Seeds are paired if the arms have the same ones. Otherwise three seeds and half of the larger arm must be shared,
    since a test of few pairs finds less than Welch's test of all runs. If a run of either arm is lost, only the counts,
    the verdict and the note are set.

    Args:
        test: the test that the user asks for, "paired" or "welch"; empty for this choice.

    Raises:
        UsageError: the paired test is asked for, but fewer than two seeds are shared.
    """
    comparison = _with_counts(comparison, ours, theirs)
    if comparison.note:  # a run is lost
        return comparison
    have_values = ours.given is None and theirs.given is None  # of each run, rather than summaries
    shared: list[str] = []
    if have_values:
        shared = [seed for seed in ours.values if seed in theirs.values]
    have_the_same = bool(shared) and ours.values.keys() == theirs.values.keys()
    if test == "paired" and len(shared) < 2:
        raise UsageError(
            f"--test paired: {comparison.optimizer} and {comparison.baseline} have fewer than two seeds in common in "
            f"{comparison.arena}; leave it out for Welch's test"
        )
    larger = max(ours.size, theirs.size)
    is_paired = have_the_same or (len(shared) >= FEWEST_SHARED and 2 * len(shared) >= larger)
    if test == "paired" or (is_paired and test != "welch"):
        note = ""
        if not have_the_same:
            note = f"{len(shared)} seeds in common, of {ours.size} and {theirs.size}"
        paired = replace(comparison, note=note, seeds=len(shared))
        return of_values(paired, ours.values_of(shared), theirs.values_of(shared))
    notes = []
    if have_values and ours.size > 1 and theirs.size > 1 and not have_the_same:
        count = plural(len(shared), "seed") if shared else "no seed"
        notes.append(f"Welch's test, {count} in common")
    warning = _warning(ours.summary(), theirs.summary())
    if warning:
        notes.append(warning)
    return summarized(replace(comparison, note="; ".join(notes)), ours.summary(), theirs.summary())


def _warning(ours: Summary, theirs: Summary) -> str:
    """Why Welch's test of two arms finds too many differences, in words; empty if it does not.

    With few runs in one arm, it does so if the arms have very unequal numbers of runs, or very unequal spreads.
    """
    fewest = min(ours.n, theirs.n)
    most = max(ours.n, theirs.n)
    if fewest < 2 or fewest >= SMALL:
        return ""
    if most >= UNEQUAL * fewest:
        return f"{fewest} against {most} runs: Welch's test finds too many differences"
    smaller = min(ours.std, theirs.std)
    larger = max(ours.std, theirs.std)
    if smaller > 0 and larger >= UNEQUAL * smaller and most >= 1.5 * fewest:
        return "unequal spreads of few runs: Welch's test finds too many differences"
    return ""


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
