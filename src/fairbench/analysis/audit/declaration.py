"""Checks of the history of a study: its plans, and the rules that it breaks on purpose."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import NOT_DECLARED
from fairbench.common.checks import check
from fairbench.study.history import Change, plan_digest
from fairbench.suites.schema import RULES

CLOCKS = timedelta(minutes=5)
"""By how much the clocks of two machines may differ."""


@check("unknown plan", "fail", "Run the study again in a new directory, its plan frozen before the first final trial.")
def unknown_plan(case: Analyses) -> str:
    """Final trials are older than the first plan on record."""
    if case.history.declared is not None:
        return ""
    count = case.history.plans[0].final_trials
    older = f"{count} final trials are older than the first plan on record"
    return f"{older}; the plan that was declared before them is unknown."


@check("changed afterwards", "fail", "Report the verdicts of the plan that was declared first, or run new seeds.")
def changed_afterwards(case: Analyses) -> str:
    """The plan was changed when results of final trials could already be seen."""
    first = case.history.declared
    if first is None or not case.history.late:
        return ""
    changes = []
    for plan, differing in case.history.late:
        when = f"{plan.declared}, when {plan.final_trials} final trials had a record"
        changes.append(f"{when}: {_changed(differing)}")
    return f"the plan that was declared {first.declared} was changed {'; '.join(changes)}. {_instead(case)}"


def _changed(differing: Iterable[Change]) -> str:
    """Changes in words; a change that several entries share, such as that of a version, is written once."""
    tables: dict[tuple[str, str, str], list[str]] = {}
    for change in differing:
        table, _, entry = change.path.rpartition(".")
        same = (entry, str(change.before), str(change.after))
        tables.setdefault(same, []).append(table)
    parts = []
    for (entry, before, after), names in tables.items():
        part = f"{names[0]}.{entry} from {before} to {after}"
        if len(names) > 1:
            part += f" (and {len(names) - 1} more times)"
        parts.append(part)
    return ", ".join(parts)


def _instead(case: Analyses) -> str:
    """The verdicts that differ by the plan that was declared first."""
    differing = []
    new = []
    for c in case.comparisons:
        if c.declared == NOT_DECLARED:
            new.append(case.title(c))
        elif c.declared != c.verdict:
            differing.append(f"{case.title(c)} {c.declared} (now {c.verdict})")
    compared = {c.pair for c in case.comparisons}
    for c in case.first_comparisons:
        if c.pair not in compared:
            pair = f"{c.arena}, {c.optimizer} against {c.baseline}"
            differing.append(f"{pair} {c.verdict} (no longer compared)")
    added = ""
    if new:
        added = f" Not declared then: {', '.join(new)}."
    if not differing:
        return f"By the plan that was declared first, the verdicts on its comparisons are the same.{added}"
    return f"By the plan that was declared first, the same records give: {', '.join(differing)}.{added}"


@check("another plan's results", "fail", "Restore the history in whose directory these trials ran, or run new seeds.")
def of_another_plan(case: Analyses) -> str:
    """Final trials ran under a plan that is not in the history, or before the plan that counts as declared first."""
    plans = case.history.plans
    first = case.history.declared
    since = ""
    declared = "is unknown"
    if first:
        plans = plans[plans.index(first) :]
        since = (datetime.fromisoformat(first.declared) - CLOCKS).isoformat()
        declared = f"was declared {first.declared}"
    known = {plan_digest(plan.study) for plan in plans}
    odd = []
    for run in case.results.select(lambda run: run.stage == "final"):
        record = run.record
        if record and record.plan and (record.plan not in known or record.written < since):
            odd.append(record.written)
    if not odd:
        return ""
    evidence = f"final trials that do not belong to the plans in the history: {len(odd)}"
    return f"{evidence}, the first from {min(odd)}; the plan before all final trials {declared}."


@check("selection on what is reported", "fail", "Select on a split that the report does not show (leave out `breaks`).")
def selection_on_report(case: Analyses) -> str:
    """Settings are selected on the split that the report shows."""
    runs = case.results.select(lambda run: run.record is not None)
    if any(run.spec.training.selection == "test" for run in runs if run.spec):
        return f"By choice of the suite, {RULES['split']}."
    return ""


@check("deviations", "warn", "Read the verdicts with them; the suite declares them itself.")
def deviations(case: Analyses) -> str:
    """The suite declares departures from good practice."""
    return " ".join(case.suite.deviations)
