"""Checks that records contradict neither themselves nor each other."""

from collections.abc import Callable, Iterator
from math import inf, isclose

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import ROUNDING
from fairbench.analysis.results import Run
from fairbench.arenas.registry import ARENAS
from fairbench.common.checks import check
from fairbench.common.formatting import some
from fairbench.common.grouping import grouped
from fairbench.study.record import Result

HIGHEST = {"accuracy": 1.0}
"""Upper bounds of metrics of fairbench's own arenas; 0 is the lower bound of all of them."""


@check("damaged records", "fail", "Restore or delete these files, then run the same command again.")
def damaged(case: Analyses) -> Iterator[str]:
    """Records cannot be read: their trials count as failed, and do not run again while the files are there."""
    runs = case.results.select(lambda run: run.record is not None and run.record.is_damaged)
    return (run.error.message for run in runs if run.error)


@check("contradictory records", "fail", "Find what wrote them; delete these records and run the same command again.")
def contradictory(case: Analyses) -> Iterator[str]:
    """A record contradicts itself in its steps, its metrics or its clip rate, or has no environment."""
    for run in case.results.select(lambda run: run.result is not None):
        if run.result and run.spec and (wrong := _contradictions(case, run, run.result, run.spec.training.steps)):
            yield f"{_name(run)}: {', '.join(wrong)}"


def _contradictions(case: Analyses, run: Run, result: Result, planned: int) -> list[str]:
    """What contradicts itself in the record of a trial with a result."""
    final, evaluations, finished = result.final or {}, run.details.evaluations, run.status == "finished"
    at_end = planned in evaluations.steps[-1:]
    last = {metric: values[-1] for metric, values in evaluations.values.items() if at_end}
    measured = [(metric, value) for metric, values in evaluations.values.items() for value in values]
    measured += [(metric, value) for metrics in final.values() for metric, value in metrics.items()]
    impossible = [
        f"{metric} {value:g}"
        for metric, value in (measured if case.suite.task(run.arena) in ARENAS else ())
        if not 0 <= value <= HIGHEST.get(metric, inf)
    ]
    wrong = {
        f"finished after {result.steps} of {planned} steps": finished and result.steps != planned,
        "diverged with final metrics": bool(final) and not finished,
        "its final metrics are not those of its last evaluation": finished and last != final.get("val"),
        f"clip rate {100 * result.clip_rate:.0f}%": not 0 <= result.clip_rate <= 1,
        "no environment": not run.environment,
    }
    return [*(words for words, holds in wrong.items() if holds), *dict.fromkeys(impossible)]


@check("same weights, other metrics", "fail", "Find the code that changes the evaluation of one; trust neither.")
def unequal_evaluation(case: Analyses) -> Iterator[str]:
    """Trials of an arena ended with the same weights, bit by bit, in the same environment, but with other metrics."""
    for same in _same_weights(case, lambda run: True):
        firsts: dict[tuple[tuple[str, str], ...], Run] = {}
        for run in same:
            first = firsts.setdefault(tuple(run.environment.items()), run)
            if differences := [*_differences(first, run)]:
                yield f"{_name(first)} and {_name(run)}: {some(differences)}"


def _differences(a: Run, b: Run) -> Iterator[str]:
    """The final metrics of two finished trials that differ."""
    for split, metrics in ((a.result and a.result.final) or {}).items():
        for metric, value in metrics.items():
            other = b.metric(split, metric)
            if other is not None and not isclose(value, other, rel_tol=ROUNDING):
                yield f"{split} {metric} {value:.4g} and {other:.4g}"


@check("duplicate results", "warn", "See whether an option or a seed is ignored; the same trial twice is one trial.")
def duplicates(case: Analyses) -> str:
    """Final trials of different arms, or with different seeds, ended with the same weights, bit by bit."""
    equal = [
        f"{x[0].arena} {' = '.join(f'{run.optimizer} seed {run.seed}' for run in x)}"
        for x in _same_weights(case, lambda run: run.stage == "final")
    ]
    return f"the same final weights: {some(sorted(equal))}." if equal else ""


def _same_weights(case: Analyses, keep: Callable[[Run], bool]) -> list[list[Run]]:
    """The finished trials that fulfil a condition and ended with the same weights in an arena, two or more together."""
    finished = case.results.select(lambda run: run.status == "finished" and keep(run))
    groups = grouped(((run.arena, run.hash("final_weights")), run) for run in finished)
    return [same for (_, weights), same in groups.items() if weights and len(same) > 1]


def _name(run: Run) -> str:
    """A trial in words, with its id where several could be meant."""
    trial = f" ({run.record.id})" if run.record and run.stage != "final" else ""
    return f"{run.arena} {run.optimizer} {run.stage} seed {run.seed}{trial}"
