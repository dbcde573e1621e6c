"""Checks that records contradict neither themselves nor each other."""

from collections.abc import Callable, Iterator
from math import inf, isclose

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.judge import ROUNDING
from fairbench.analysis.results import Run
from fairbench.arenas.registry import ARENAS
from fairbench.common.checks import check
from fairbench.common.exact_values import are_equal_without_chance
from fairbench.common.formatting import some
from fairbench.common.grouping import grouped
from fairbench.study.record import Result

HIGHEST = {"accuracy": 1.0}
"""Upper bounds of metrics of fairbench's own arenas; 0 is the lower bound of all of them."""
OWN_LENGTH = 0.75
"""A program that trains as long as it always does ended early with a smaller share of the most steps of its arm."""


@check("damaged records", "fail", "Restore or delete these files, then run the same command again.")
def damaged(case: Analyses) -> Iterator[str]:
    """Records cannot be read: their trials count as failed, and do not run again while the files are there."""
    runs = case.results.select(lambda run: run.record is not None and run.record.is_damaged)
    for run in runs:
        if run.error:
            yield run.error.message


@check("contradictory records", "fail", "Find what wrote them; delete these records and run the same command again.")
def contradictory(case: Analyses) -> Iterator[str]:
    """A record contradicts itself in its steps, its metrics or its clip rate, or has no environment."""
    for run in case.results.select(lambda run: run.result is not None):
        if run.result and run.spec:
            planned_steps = run.spec.training.steps
            if case.suite.facts(run.arena).kind == "program":
                planned_steps = 0
            wrong = _contradictions(run, run.result, planned_steps)
            if case.suite.task(run.arena) in ARENAS:
                wrong += _impossible_metrics(run, run.result)
            if wrong:
                yield f"{_name(run)}: {', '.join(wrong)}"


def _contradictions(run: Run, result: Result, planned_steps: int) -> list[str]:
    """The contradictions in the record of a trial, in words. Values that a metric cannot have are not among them.

    `planned_steps` is 0 for a program, which may end early, and reports as its result what it wants.
    """
    final_metrics = result.final or {}
    finished = run.status == "finished"
    wrong = []
    if planned_steps and finished and result.steps != planned_steps:
        wrong.append(f"finished after {result.steps} of {planned_steps} steps")
    if final_metrics and not finished:
        wrong.append("diverged with final metrics")
    if planned_steps and finished and _last_evaluation(run, planned_steps) != final_metrics.get("val"):
        wrong.append("its final metrics are not those of its last evaluation")
    if not 0 <= result.clip_rate <= 1:
        wrong.append(f"clip rate {100 * result.clip_rate:.0f}%")
    if not run.environment:
        wrong.append("no environment")
    return wrong


def _last_evaluation(run: Run, planned_steps: int) -> dict[str, float]:
    """The metrics that were evaluated after the last planned step; empty if there was no such evaluation."""
    evaluations = run.details.evaluations
    if planned_steps not in evaluations.steps[-1:]:
        return {}  # there may be no evaluation at all
    return {metric: values[-1] for metric, values in evaluations.values.items()}


def _impossible_metrics(run: Run, result: Result) -> list[str]:
    """The measured values that a metric of fairbench's own arenas cannot have, each written once."""
    measured: list[tuple[str, float]] = []
    for metric, values in run.details.evaluations.values.items():
        measured += [(metric, value) for value in values]
    for metrics in (result.final or {}).values():
        measured += metrics.items()
    impossible = []
    for metric, value in measured:
        if not 0 <= value <= HIGHEST.get(metric, inf):
            impossible.append(f"{metric} {value:g}")
    return [*dict.fromkeys(impossible)]


@check("trials that ended early", "note", "Compare where each ended; `--at best` takes the best report of each.")
def ended_early(case: Analyses) -> str:
    """Programs have ended before the last step of their trials, and without an error."""
    finished = case.results.select(lambda run: run.stage == "final" and run.status == "finished")
    longest: dict[tuple[str, str], int] = {}
    early = []
    for run in finished:
        if run.result:
            arm = (run.arena, run.optimizer)
            longest[arm] = max(longest.get(arm, 0), run.result.steps)
    for run in finished:
        if not (run.result and run.spec) or case.suite.facts(run.arena).kind != "program":
            continue
        planned = run.spec.training.steps
        ended = run.result.steps < planned
        if run.spec.arena.model["own_length"]:
            planned = longest[run.arena, run.optimizer]
            ended = run.result.steps < OWN_LENGTH * planned
        if ended:
            early.append(f"{_name(run)} after {run.result.steps} of {planned}")
    if not early:
        return ""
    return f"programs ended before the last step, and the metrics of their last reports count: {some(early)}."


@check("same weights, other metrics", "fail", "Find the code that changes the evaluation of one; trust neither.")
def unequal_evaluation(case: Analyses) -> Iterator[str]:
    """Trials of an arena ended with the same weights, bit by bit, in the same environment, but with other metrics."""
    for same_weights in _groups_with_same_weights(case, lambda run: True):
        first_in_environment: dict[tuple[tuple[str, str], ...], Run] = {}
        for run in same_weights:
            environment = tuple(run.environment.items())
            first = first_in_environment.setdefault(environment, run)
            differences = _differences(first, run)
            if differences:
                yield f"{_name(first)} and {_name(run)}: {some(differences)}"


def _differences(a: Run, b: Run) -> list[str]:
    """The final metrics in which two finished trials differ, with both values."""
    if a.result is None or a.result.final is None:
        return []
    differences = []
    for split, metrics in a.result.final.items():
        for metric, value in metrics.items():
            other_value = b.metric(split, metric)
            if other_value is not None and not isclose(value, other_value, rel_tol=ROUNDING):
                differences.append(f"{split} {metric} {value:.4g} and {other_value:.4g}")
    return differences


@check("duplicate results", "warn", "See whether an option or a seed is ignored; the same trial twice is one trial.")
def duplicates(case: Analyses) -> str:
    """Final trials of different arms, or with different seeds, ended with the same weights, bit by bit."""
    equal = []
    for runs in _groups_with_same_weights(case, lambda run: run.stage == "final"):
        names = [f"{run.optimizer} seed {run.seed}" for run in runs]
        equal.append(f"{runs[0].arena} {' = '.join(names)}")
    if not equal:
        return ""
    return f"the same final weights: {some(sorted(equal))}."


@check(
    "seed without effect",
    "warn",
    "Pass the seed to the program, and run the study again: its runs are no more than one.",
)
def seed_without_effect(case: Analyses) -> str:
    """Final trials of an arm ended with the same metrics at all seeds, which have too many digits for chance."""
    equal = []
    for arm in case.results.arms:
        runs = [run for run in arm.final if run.status == "finished"]
        if any(run.hash("final_weights") for run in runs):
            continue  # equal weights have a flag of their own
        for metric in case.results.metrics[arm.arena]:
            values = arm.scores(metric)
            if are_equal_without_chance(values):
                equal.append(f"{arm.arena} {arm.optimizer} {metric} {values[0]:.10g} at {len(values)} seeds")
    if not equal:
        return ""
    return f"the same values: {some(equal)}."


def _groups_with_same_weights(case: Analyses, keep: Callable[[Run], bool]) -> list[list[Run]]:
    """Groups of two or more finished trials of an arena that ended with the same weights.

    Only trials that fulfil the condition `keep` are in a group.
    """
    finished = case.results.select(lambda run: run.status == "finished" and keep(run))
    groups = grouped(((run.arena, run.hash("final_weights")), run) for run in finished)
    return [runs for (_, weights), runs in groups.items() if weights and len(runs) > 1]


def _name(run: Run) -> str:
    """The name of a trial in words. It has the id where several trials have the same name."""
    name = f"{run.arena} {run.optimizer} {run.stage} seed {run.seed}"
    if run.record and run.stage != "final":
        return f"{name} ({run.record.id})"
    return name
