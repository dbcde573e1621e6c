"""Checks of the search for settings: where the selected ones lie, and whether verdicts depend on their choice."""

from collections.abc import Iterator, Sequence

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Run
from fairbench.common.checks import check
from fairbench.common.formatting import plural, rate, some
from fairbench.suites.search import are_numbers


def edge(arm: ArmResults) -> str:
    """The place of the selected rate among those of stage 2, or of the sweep if stage 2 has only one.

    It is "lowest", "highest" or "inside"; empty without any.
    """
    if not (arm.selected and arm.sweep):
        return ""
    tried = _rates(arm.full_length)
    if len(tried) < 2:
        tried = _rates(arm.sweep)
    if arm.selected.lr == max(tried):
        return "highest"
    if arm.selected.lr == min(tried):
        return "lowest"
    return "inside"


def _rates(runs: Sequence[Run]) -> set[float]:
    """The learning rates of some trials."""
    return {run.lr for run in runs if run.lr is not None}


@check("rate at the edge", "warn", "Widen the range of rates, or give the searches more settings (`sweep.budget`).")
def at_edge(case: Analyses) -> str:
    """A selected learning rate is the lowest or the highest that was tried at the reported length."""
    tuned = 0
    flagged = []
    for arm in case.results.arms:
        where = edge(arm)
        if not where or arm.selected is None:
            continue
        tuned += 1
        if where != "inside":
            flagged.append(f"{arm.arena} {arm.optimizer} ({where}, {rate(arm.selected.lr)})")
    if not flagged:
        return ""
    count = f"{len(flagged)} of {plural(tuned, 'arm')}"
    return (
        f"selected at the edge of the rates that were tried: {', '.join(flagged)} ({count}). "
        "A rate beyond might be better."
    )


@check(
    "selected by one search",
    "warn",
    "Train several settings with the final seeds (`final.settings`), or claim nothing about other rates.",
)
def by_one_search(case: Analyses) -> str:
    """A single search selected the settings, so a verdict is about them; another search might select others."""
    suite = case.suite
    if suite.final.settings > 1 or not any(map(case.results.study.tuned, suite.optimizers)):
        return ""
    lengths = dict.fromkeys(f"{plan.sweep_steps} of {plan.steps} steps" for plan in suite.arenas.values())
    noun = "seed" if len(suite.sweep.seeds) == 1 else "seeds"
    seeds = ", ".join(map(str, suite.sweep.seeds))
    return f"by trials with {some(list(lengths))} and {noun} {seeds}. What another search would select cannot be known."


@check("untuned", "warn", "Read its verdicts as those of an untuned optimizer, or set `lr_scale` to search its rate.")
def untuned(case: Analyses) -> str:
    """An optimizer has a learning rate that is fixed from the start; none was searched."""
    optimizers = case.results.study.optimizers
    fixed = [f"{name} (lr {rate(x.lr)})" for name, x in optimizers.items() if x.lr is not None]
    if not fixed:
        return ""
    return f"{', '.join(fixed)}: final trials only."


@check("searched value at the end", "note", "Add values beyond it (`sweep.extra`) for all optimizers.")
def extra_at_end(case: Analyses) -> Iterator[str]:
    """The selected value of a hyperparameter that is searched with the rate is its lowest or its highest."""
    for name, values in case.suite.sweep.extra.items():
        if len(values) < 3 or not are_numbers(values):  # of two, each is an end
            continue
        ends = (min(values), max(values))
        for arm in case.results.arms:
            if not arm.sweep or not arm.selected:
                continue
            value = dict(arm.selected.extra).get(name)
            if value in ends:
                yield f"{arm.arena} {arm.optimizer} ({name} {value:g})"
