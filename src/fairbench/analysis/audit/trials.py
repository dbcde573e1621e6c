"""Checks of the trials: whether all have records, and had the same environment, start, data and use of the device."""

from collections.abc import Iterator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparability import Mixture, hash_checks, mixtures
from fairbench.analysis.cost import step_seconds, timing_costs
from fairbench.common.checks import check
from fairbench.common.formatting import plural, some
from fairbench.data.datasets.registry import UNVERIFIED
from fairbench.study.environments import CHANGED_FILES
from fairbench.suites.schema import Suite

DATA_BOUND = 0.2
"""Share of a training step above which loading the batch dominates its time."""


@check("incomplete", "fail", "Run the same command again: it runs the missing trials and retries the failed ones.")
def incomplete(case: Analyses) -> str:
    """Trials are missing or failed."""
    shortage = case.results.shortage
    if not shortage:
        return ""
    unselected = [f"{arm.arena} {arm.optimizer}" for arm in case.results.arms if not (arm.selected or arm.diverged)]
    waiting = ""
    if unselected:
        waiting = f" No learning rate is selected yet for {', '.join(unselected)}."
    return f"{shortage}.{waiting}"


@check("mixed machines", "fail", "Run all trials of a comparison on one machine with one set of versions.")
def mixed_machines(case: Analyses) -> str:
    """Trials of a comparison ran on different devices, versions or code revisions."""
    return " ".join(_mixture_in_words(case.suite, mixture) for mixture in mixtures(case))


def _mixture_in_words(suite: Suite, mixture: Mixture) -> str:
    """The facts that differ between trials, and the comparisons concerned, in words."""
    facts = "; ".join(f"{fact} ({some(values, ' / ')})" for fact, values in mixture.facts.items())
    concerned = ", ".join(suite.pair_titles(mixture.comparisons))
    sentence = f"Trials differ in {facts}. Concerned: {concerned}."
    if not mixture.confounded:
        return sentence
    confounded = ", ".join(suite.pair_titles(mixture.confounded))
    return f"{sentence} In {confounded} it depends on the optimizer: final trials of the two share no value."


@check("unequal conditions", "fail", "Find the code that draws random numbers or changes the data for one optimizer.")
def unequal_conditions(case: Analyses) -> str:
    """Trials that share arena, stage and seed did not have the same initial weights, batches or noise."""
    differing = []
    for hash_check in case.of(hash_checks):
        if not hash_check.agrees:
            differing.append(f"{hash_check.arena} {hash_check.stage} seed {hash_check.seed}")
    if not differing:
        return ""
    differ = f"initial weights, batch order or noise differ between trials in {', '.join(differing)}"
    return f"{differ}. Comparisons there are not fair."


@check("conditions not shown", "note", "Let the program show them: `trial.start(model)` and `trial.batch(x)`.")
def not_shown(case: Analyses) -> Iterator[tuple[str, str]]:
    """Training programs did not show that trials with the same seed had the same initial weights and batches."""
    for hash_check in case.of(hash_checks):
        if hash_check.initial_weights is None:
            yield hash_check.arena, "initial weights"
        if hash_check.batches is None:
            yield hash_check.arena, "batches"


@check(
    "unverified data",
    "fail",
    "Run `fairbench data verify`: it names the authors' files and a command. Then run the study in a new directory.",
)
def unverified_data(case: Analyses) -> str:
    """The data may differ from those that their authors published."""
    runs = case.results.select(lambda run: UNVERIFIED in run.environment.get("data", ""))
    arenas = dict.fromkeys(run.arena for run in runs)
    if not arenas:
        return ""
    return f"in {', '.join(arenas)} their hash differs from the known one, or none is known."


@check("shared examples", "note", "Compare optimizers by it; do not take the metrics for those on unseen examples.")
def shared_examples(case: Analyses) -> Iterator[tuple[str, str]]:
    """Images or rows of one split are also in another one."""
    for name, arena in case.history.study.arenas.items():
        if arena.shared:
            yield name, arena.shared


@check(
    "diverged trials",
    "warn",
    "Look at the loss curves; compare again with lower learning rates (`--lr-grid`) or more warm-up for all.",
)
def diverged(case: Analyses) -> str:
    """The loss or a metric of a trial was not finite."""
    lost = case.results.select(lambda run: run.status == "diverged")
    if not lost:
        return ""
    reported = sum(run.stage == "final" and run.selected for run in lost)
    evidence = (
        f"{plural(len(lost), 'trial')} diverged ({reported} reported). A setting with a diverged trial ranks after "
        "those without one. An arm with a diverged trial at the selected setting is not tested: the mean of its "
        "finished trials would be too good."
    )
    no_rate = [f"{arm.arena} {arm.optimizer}" for arm in case.results.arms if arm.diverged]
    if no_rate:
        names = ", ".join(no_rate)
        evidence += f" At every rate of its sweep a trial diverged, so no final trial was run: {names}."
    return evidence


@check(
    "modified checkout",
    "note",
    "Commit the changes of fairbench, so that the revision in the records is the code that ran.",
)
def modified(case: Analyses) -> str:
    """Trials ran from a checkout of fairbench with changes that no revision has."""
    facts = case.results.environment
    revisions = [revision for revision in facts.get("git", ()) if revision.endswith("+changes")]
    files = "; ".join(facts.get(CHANGED_FILES, ()))
    if revisions and files:
        return f"{some(revisions)} in {files}"
    return some(revisions)


@check("data-bound timing", "note", "Do not compare step times there; bring the data nearer to the device.")
def data_bound(case: Analyses) -> Iterator[tuple[str, str]]:
    """In timing trials, getting the batch takes a fifth of an arm's training step or more."""
    for arm in case.results.arms:
        costs = timing_costs(arm)
        all_seconds = sum(map(step_seconds, costs))
        if not all_seconds:
            continue  # the arm has no finished timing trial
        share = sum(cost.seconds.data for cost in costs) / all_seconds
        if share >= DATA_BOUND:
            yield arm.arena, f"{arm.optimizer} {100 * share:.0f}% of the step"


@check("shared device", "note", "Run the study again with `--timing` while nothing else uses the device.")
def shared_device(case: Analyses) -> Iterator[tuple[str, str]]:
    """Timing trials of an arm shared their device with other trials."""
    for arm in case.results.arms:
        timed = timing_costs(arm)
        busy = sum(not cost.alone for cost in timed)
        if busy:
            yield arm.arena, f"{arm.optimizer} {busy} of {len(timed)} timing trials, which are not part of any cost"
