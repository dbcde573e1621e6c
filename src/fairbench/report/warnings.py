"""What nobody may overlook who reads the verdicts: how the study came to be what it is, in sentences."""

from collections.abc import Iterable, Sequence

from fairbench.analysis.conditions import hash_checks
from fairbench.analysis.environments import Mixture, mixtures
from fairbench.analysis.results import Results
from fairbench.analysis.verdicts import NOT_DECLARED, Comparison
from fairbench.data.facts import UNVERIFIED
from fairbench.history import Change, History
from fairbench.suite import Suite

SHOWN = 4
"""Values of a fact that a warning lists."""


def warnings(
    results: Results, comparisons: Sequence[Comparison], history: History, declared: Sequence[Comparison]
) -> dict[str, str]:
    """Each warning by its topic, empty where there is nothing to warn of; see `fairbench.report.findings.find`."""
    return {
        "Plan": late_changes(comparisons, history, declared),
        "Completeness": completeness(results),
        "Machines": mixed_machines(results),
        "Unequal conditions": unequal_conditions(results),
        "Data": unverified_data(results),
    }


def late_changes(comparisons: Sequence[Comparison], history: History, declared: Sequence[Comparison]) -> str:
    """What was changed when final trials could have been looked at, and what the first plan says instead."""
    first = history.declared
    if first is None:
        older = f"{history.plans[0].final_trials} final trials are older than the first plan on record"
        return f"UNKNOWN PLAN: {older}; nobody can tell what was declared before them."
    if not history.late:
        return ""
    steps = [
        f"{plan.declared}, when {plan.final_trials} final trials had a record: {_changed(differing)}"
        for plan, differing in history.late
    ]
    changed = f"CHANGED AFTERWARDS: what was declared {first.declared} was changed {'; '.join(steps)}."
    return f"{changed} {_instead(history.study.suite, comparisons, declared)}"


def _changed(differing: Iterable[Change]) -> str:
    """Changes in words; the same change in several places, as that of a version, is said once."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for change in differing:
        where, _, entry = change.path.rpartition(".")
        places.setdefault((entry, str(change.before), str(change.after)), []).append(where)
    return ", ".join(
        f"{where[0]}.{entry} from {before} to {after}" + (f" (and {len(where) - 1} times alike)" if where[1:] else "")
        for (entry, before, after), where in places.items()
    )


def _instead(suite: Suite, comparisons: Sequence[Comparison], declared: Sequence[Comparison]) -> str:
    """Where the plan that was declared first comes to another verdict."""
    shown = {(c.arena, c.reference, c.baseline) for c in comparisons}
    other = [
        f"{suite.pair_title(c.arena, c.reference, c.baseline)} {c.declared} (now {c.verdict})"
        for c in comparisons
        if c.declared not in (c.verdict, NOT_DECLARED)
    ]
    other += [
        f"{c.arena}, {c.reference} against {c.baseline} {c.verdict} (no longer compared)"
        for c in declared
        if (c.arena, c.reference, c.baseline) not in shown
    ]
    new = [suite.pair_title(c.arena, c.reference, c.baseline) for c in comparisons if c.declared == NOT_DECLARED]
    added = f" Not declared then: {', '.join(new)}." if new else ""
    if not other:
        return f"By the plan that was declared first, the verdicts on what it compares are the same.{added}"
    return f"By the plan that was declared first, the same records give: {', '.join(other)}.{added}"


def completeness(results: Results) -> str:
    """How many trials are missing or failed; empty for a complete study."""
    runs = results.select(lambda run: True)
    counts = {status: sum(run.status == status for run in runs) for status in ("missing", "failed")}
    if not any(counts.values()):
        return ""
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    waiting = [f"{arm.arena} {arm.optimizer}" for arm in results.arms if arm.lr is None and not arm.diverged]
    more = f" No learning rate is selected yet for {', '.join(waiting)}." if waiting else ""
    return f"INCOMPLETE: of {len(runs)} trials known to be needed, {' and '.join(parts)}.{more}"


def mixed_machines(results: Results) -> str:
    """Which comparisons are between trials that ran on different ground; empty if there are none."""
    found = mixtures(results)
    return f"MIXED MACHINES: {' '.join(_mixture(results.study.suite, mixture) for mixture in found)}" if found else ""


def _some(values: Sequence[str]) -> str:
    """Values, the first of many."""
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return " / ".join(values[:SHOWN]) + more


def _mixture(suite: Suite, mixture: Mixture) -> str:
    facts = "; ".join(f"{fact} ({_some(values)})" for fact, values in mixture.facts.items())
    where = ", ".join(suite.pair_title(*compared) for compared in mixture.comparisons)
    both = ", ".join(suite.pair_title(*compared) for compared in mixture.confounded)
    confounded = (
        f" In {both} it goes with the optimizer: no final trial of one has what one of the other has." if both else ""
    )
    return f"Trials differ in {facts}. Concerned: {where}.{confounded}"


def unverified_data(results: Results) -> str:
    """Which arenas had data that may not be what their authors published; empty if none."""
    arenas = [run.arena for run in results.select(lambda run: UNVERIFIED in run.environment.get("data", ""))]
    if not arenas:
        return ""
    return (
        f"UNVERIFIED DATA in {', '.join(dict.fromkeys(arenas))}: their hash is not the known one, or nobody knows one."
    )


def unequal_conditions(results: Results) -> str:
    """Where trials that share arena, stage and seed did not get the same; empty if they did."""
    differing = [f"{x.arena} {x.stage} seed {x.seed}" for x in hash_checks(results) if not x.agrees]
    if not differing:
        return ""
    return (
        "UNEQUAL CONDITIONS: initial weights, batch order or noise differ between trials in "
        f"{', '.join(differing)}. Comparisons there are not fair."
    )
