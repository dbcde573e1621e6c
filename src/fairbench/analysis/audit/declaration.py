"""Checks of the history of a study: its plans, and the rules that it breaks on purpose."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import NOT_DECLARED
from fairbench.common.checks import Severity, check
from fairbench.study.history import Change, plan_digest
from fairbench.suites.schema import RULES

CLOCK_TOLERANCE = timedelta(minutes=5)
"""The clocks of two machines may differ by this."""


@check("unknown plan", "fail", "Run the study again in a new directory, its plan frozen before the first final trial.")
def unknown_plan(case: Analyses) -> str:
    """Final trials are older than the first plan on record."""
    if case.history.declared is not None:
        return ""
    count = case.history.plans[0].final_trials
    older = f"{count} final trials are older than the first plan on record"
    return f"{older}; the plan that was declared before them is unknown."


@check(
    "changed afterwards",
    "fail",
    "Report the verdicts of the plan that was declared first, or run new seeds in a new directory (`--seeds`, `-o`).",
)
def changed_afterwards(case: Analyses) -> str:
    """The plan was changed when results of final trials could already be seen."""
    first = case.history.declared
    if first is None or not case.history.late:
        return ""
    changes = []
    for plan, differing in case.history.late:
        when = f"{plan.declared}, when {plan.final_trials} final trials had a record"
        changes.append(f"{when}: {_changed(differing)}")
    changed = f"the plan that was declared {first.declared} was changed {'; '.join(changes)}"
    return f"{changed}. {_verdicts_by_declared_plan(case)}"


def _changed(differing: Iterable[Change]) -> str:
    """Changes in words. A change that several tables share, such as a new version, is written once."""
    tables_of_changes: dict[tuple[str, str, str], list[str]] = {}
    for change in differing:
        table, _, entry = change.path.rpartition(".")
        shared = (entry, str(change.before), str(change.after))
        tables_of_changes.setdefault(shared, []).append(table)
    parts = []
    for (entry, before, after), tables in tables_of_changes.items():
        part = f"{tables[0]}.{entry} from {before} to {after}"
        if len(tables) > 1:
            part += f" (and {len(tables) - 1} more times)"
        parts.append(part)
    return ", ".join(parts)


def _verdicts_by_declared_plan(case: Analyses) -> str:
    """The verdicts that would differ by the plan that was declared first, in words."""
    differing = []
    new = []
    for c in case.comparisons:
        if c.declared == NOT_DECLARED:
            new.append(case.title(c))
        elif c.declared != c.verdict:
            differing.append(f"{case.title(c)} {c.declared} (now {c.verdict})")
    compared = {c.pair for c in case.comparisons}
    for c in case.declared_comparisons:
        if c.pair not in compared:
            pair = f"{c.arena}, {c.optimizer} against {c.baseline}"
            differing.append(f"{pair} {c.verdict} (no longer compared)")
    added = ""
    if new:
        added = f" Not declared then: {', '.join(new)}."
    if not differing:
        return f"By the plan that was declared first, the verdicts on its comparisons are the same.{added}"
    return f"By the plan that was declared first, the same records give: {', '.join(differing)}.{added}"


@check(
    "another plan's results",
    "fail",
    "Restore the history in whose directory these trials ran, or run new seeds in a new directory (`--seeds`, `-o`).",
)
def of_another_plan(case: Analyses) -> str:
    """Final trials ran under a plan that is not in the history, or before the plan that counts as declared first."""
    plans = case.history.plans
    first = case.history.declared
    if first is None:
        earliest = ""  # as text, no time comes before this
        declared = "is unknown"
    else:
        # plans before this one were replaced before any final trial
        plans = plans[plans.index(first) :]
        earliest = (datetime.fromisoformat(first.declared) - CLOCK_TOLERANCE).isoformat()
        declared = f"was declared {first.declared}"
    known_digests = {plan_digest(plan.study) for plan in plans}
    dates = []
    for run in case.results.select(lambda run: run.stage == "final"):
        record = run.record
        if record is None or not record.plan:
            continue
        if record.plan not in known_digests or record.written < earliest:
            dates.append(record.written)
    if not dates:
        return ""
    evidence = f"final trials that do not belong to the plans in the history: {len(dates)}"
    return f"{evidence}, the first from {min(dates)}; the plan before all final trials {declared}."


@check(
    "selection on what is reported",
    "fail",
    "Let a program report `test/...` as well as `val/...`; a suite leaves out `breaks`.",
)
def selection_on_report(case: Analyses) -> tuple[Severity, str]:
    """Settings are selected on the split that the report shows (fail; warn for programs, which often have one)."""
    study = case.results.study
    if not any(map(study.searched, study.optimizers)):
        return "pass", ""  # nothing was selected
    runs = case.results.select(lambda run: run.record is not None)
    if not any(run.spec.training.selection == "test" for run in runs if run.spec):
        return "pass", ""
    if study.suite.decides == "val":
        return "warn", (
            "The verdict is about the validation split, on which the learning rates were selected: by the same search "
            "for every optimizer, so that all values are a little too good."
        )
    return "fail", f"By choice of the suite, {RULES['split']}."


@check("deviations", "warn", "Read the verdicts with them; the suite declares them itself.")
def deviations(case: Analyses) -> str:
    """The suite declares departures from good practice."""
    return " ".join(case.suite.deviations)
