"""Checks of the search for settings: whether selected ones lie at an edge, and whether verdicts depend on them."""

from collections.abc import Collection, Iterator, Sequence

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Run
from fairbench.common.checks import check
from fairbench.common.formatting import plural, rate, some
from fairbench.suites.search import are_numbers
from fairbench.suites.stages import Sweep

COARSE = 9.99
"""The least factor between neighboring rates of a grid that is too coarse to find the best one."""


def edge(arm: ArmResults) -> str:
    """The position of the selected learning rate among the rates of stage 2: "lowest", "highest" or "inside".

    If stage 2 has only one rate, the rates are those of the sweep. Empty for an arm without a selected rate.
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


@check(
    "rate at the edge",
    "warn",
    "Widen the range of learning rates (`--lr-grid`), or give the searches more settings (`--set sweep.budget=N`).",
)
def at_edge(case: Analyses) -> str:
    """A selected learning rate is the lowest or the highest that was tried at the reported length."""
    tuned_arms = 0
    flagged = []
    positions = set()
    for arm in case.results.arms:
        position = edge(arm)
        if not position or arm.selected is None:
            continue  # nothing was searched
        tuned_arms += 1
        if position != "inside":
            positions.add(position)
            flagged.append(f"{arm.arena} {arm.optimizer} ({position}, {rate(arm.selected.lr)})")
    if not flagged:
        return ""
    count = f"{len(flagged)} of {plural(tuned_arms, 'arm')}"
    grid = _wider_grid(case.suite.sweep, positions)
    return (
        f"selected at the edge of the rates that were tried: {', '.join(flagged)} ({count}). "
        f"A rate beyond might be better. --lr-grid {grid} continues with a wider grid."
    )


def _wider_grid(sweep: Sweep, positions: Collection[str]) -> str:
    """The grid with two more rates beyond each edge at which one was selected.

    Where neighbors differ by a factor of 10 or more, there are new rates between them, too.
    """
    ratio = (sweep.lr_max / sweep.lr_min) ** (1 / (sweep.points - 1))
    lowest = sweep.lr_min
    highest = sweep.lr_max
    points = sweep.points
    if "lowest" in positions:
        lowest /= ratio**2
        points += 2
    if "highest" in positions:
        highest *= ratio**2
        points += 2
    if ratio >= COARSE:
        points = 2 * points - 1
    return f"{lowest:.6g}:{highest:.6g}:{points}"


@check(
    "selected by one search",
    "warn",
    "Train several settings with the final seeds (`--set final.settings=3`), "
    "or claim nothing about other learning rates.",
)
def by_one_search(case: Analyses) -> str:
    """A single search selected the settings, so a verdict is about them; another search might select others."""
    suite = case.suite
    if suite.final.settings > 1 or not any(map(case.results.study.searched, suite.optimizers)):
        return ""  # several settings have final trials, or nothing was searched
    sweep_lengths = dict.fromkeys(f"{plan.sweep_steps} of {plan.steps} steps" for plan in suite.arenas.values())
    noun = "seed" if len(suite.sweep.seeds) == 1 else "seeds"
    seeds = ", ".join(map(str, suite.sweep.seeds))
    trials = f"by trials with {some(list(sweep_lengths))} and {noun} {seeds}"
    return f"{trials}. What another search would select cannot be known."


@check(
    "untuned",
    "warn",
    "Read its verdicts as those of an untuned optimizer, or search its rate: no `lr`, and `--set NAME.lr_scale=1`.",
)
def untuned(case: Analyses) -> str:
    """An optimizer has a learning rate that is fixed from the start; none was searched."""
    optimizers = case.results.study.optimizers
    fixed = [f"{name} (lr {rate(optimizer.lr)})" for name, optimizer in optimizers.items() if optimizer.lr is not None]
    if not fixed:
        return ""
    return f"{', '.join(fixed)}: final trials only."


@check("searched value at the end", "note", "Add values beyond it (`sweep.extra`) for all optimizers.")
def extra_at_end(case: Analyses) -> Iterator[str]:
    """The selected value of a hyperparameter that is searched with the learning rate is its lowest or its highest."""
    for name, values in case.suite.sweep.extra.items():
        if len(values) < 3 or not are_numbers(values):
            continue  # each of two values is an edge, and words have no order
        edges = (min(values), max(values))
        for arm in case.results.arms:
            if not arm.sweep or not arm.selected:
                continue
            value = dict(arm.selected.extra).get(name)
            if value in edges:
                yield f"{arm.arena} {arm.optimizer} ({name} {value:g})"
