"""The comparison of two arms of a table, or of an arm with a number, before Holm's correction."""

from dataclasses import replace

from fairbench.analysis.comparison.two_arms import of_values, summarized
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.statistics.significance import Summary
from fairbench.analysis.tables.arms import Arm
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some

FEWEST_SHARED = 3
"""The smallest number of seeds in common from which two arms are meant to have the same seeds."""
MISSING_SEEDS = (
    "a seed that one of two optimizers lacks makes their comparison incomplete, as a run without a value does: add the "
    "run, remove the seed from both, or give --test paired for the seeds in common, or --test welch for all runs"
)
"""What the user must know of arms that are meant to have the same seeds, and do not."""
SMALL = 5
"""The number of runs from which Welch's test bears unequal numbers and spreads."""
UNEQUAL = 2.5
"""The ratio of two numbers of runs, or of two standard deviations, from which they are very unequal."""


def between_arms(comparison: Comparison, ours: Arm, theirs: Arm, test: str) -> Comparison:
    """Compare two arms by the seeds that both have, or else by Welch's test of their summaries.

    Seeds are paired if the arms have the same ones. If they lack some, the comparison is incomplete, unless the user
    asks for a test. Arms with other seeds are compared by Welch's test. If a run of either arm is lost or missing, only
    the counts, the verdict and the note are set.

    Args:
        test: the test that the user asks for, "paired" or "welch"; empty for this choice.

    Raises:
        UsageError: the paired test is asked for, but fewer than two seeds are shared.
    """
    comparison = _with_counts(comparison, ours, theirs)
    if not test and lack_seeds(ours, theirs):
        comparison = _lacking(comparison, ours, theirs)
    if comparison.note:  # a run is lost
        return comparison
    shared = _shared(ours, theirs)
    have_the_same = bool(shared) and ours.values.keys() == theirs.values.keys()
    if test == "paired" and len(shared) < 2:
        raise UsageError(
            f"--test paired: {comparison.optimizer} and {comparison.baseline} have fewer than two seeds in common in "
            f"{comparison.arena}; leave it out for Welch's test"
        )
    notes = []
    if test == "paired" or (have_the_same and test != "welch"):
        if not have_the_same:
            notes.append(f"{len(shared)} seeds in common, of {ours.size} and {theirs.size}")
        notes += _early(comparison.optimizer, ours) + _early(comparison.baseline, theirs)
        count = len(shared)
        paired = replace(comparison, note="; ".join(notes), seeds=count, n_optimizer=count, n_baseline=count)
        return of_values(paired, ours.values_of(shared), theirs.values_of(shared))
    if _have_values(ours, theirs) and ours.size > 1 and theirs.size > 1 and not have_the_same:
        number = "no seed"
        if shared:
            number = plural(len(shared), "seed")
        notes.append(f"Welch's test, {number} in common")
    warning = _warning(ours.summary(), theirs.summary())
    if warning:
        notes.append(warning)
    notes += _early(comparison.optimizer, ours) + _early(comparison.baseline, theirs)
    return summarized(replace(comparison, note="; ".join(notes)), ours.summary(), theirs.summary())


def _have_values(ours: Arm, theirs: Arm) -> bool:
    """Whether both arms have the values of their runs, rather than a summary."""
    return ours.given is None and theirs.given is None


def _shared(ours: Arm, theirs: Arm) -> list[str]:
    """The seeds that both arms have."""
    if not _have_values(ours, theirs):
        return []
    return [seed for seed in ours.values if seed in theirs.values]


def lack_seeds(ours: Arm, theirs: Arm) -> bool:
    """Whether two arms are meant to have the same seeds, and do not.

    They are if one arm has no other seeds than the other arm, or if they share three seeds and half of the larger arm.
    """
    shared = _shared(ours, theirs)
    if not shared or ours.values.keys() == theirs.values.keys():
        return False
    larger = max(ours.size, theirs.size)
    smaller = min(ours.size, theirs.size)
    return len(shared) == smaller or (len(shared) >= FEWEST_SHARED and 2 * len(shared) >= larger)


def _lacking(comparison: Comparison, ours: Arm, theirs: Arm) -> Comparison:
    """The comparison of two arms that lack seeds, with a note that names them."""
    notes = []
    if comparison.note:
        notes.append(comparison.note)
    for name, arm, other in ((comparison.optimizer, ours, theirs), (comparison.baseline, theirs, ours)):
        seeds = [seed for seed in other.values if seed not in arm.values]
        if seeds:
            notes.append(f"{name} without seed {some(seeds)}")
    verdict = comparison.verdict
    if verdict == "inconclusive":
        verdict = "incomplete"
    return replace(comparison, verdict=verdict, note=", ".join(notes))


def _early(name: str, arm: Arm) -> list[str]:
    """The runs of an arm that end before others, in words."""
    if not arm.early:
        return []
    if len(arm.early) > 1:
        return [f"{len(arm.early)} of {arm.size} runs of {name} end early"]
    ((seed, end),) = arm.early.items()
    if seed:
        name = f"{name} seed {seed}"
    return [f"{name} ends at step {end}"]


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
    comparison = replace(comparison, note="; ".join(_early(comparison.optimizer, arm)))
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
