"""A suite with other numbers of seeds or steps, and what depends on them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any

from fairbench.optimizers.spec import WARMUP
from fairbench.suites.schema import ArenaPlan, Suite


def with_seeds(suite: Suite, seeds: int | Sequence[int]) -> Suite:
    """A suite with other final seeds, and its looks and the seeds of repeated searches to match.

    Args:
        suite: the suite.
        seeds: the seeds, or their number: the suite's come first, so that finished trials are kept. Seeds of the search
            that are among them are replaced by others.
    """
    sweep, final, may_share = suite.sweep, suite.final, "seeds" in suite.breaks
    if isinstance(seeds, int):
        seeds = _extended(final.seeds, seeds, () if may_share else sweep.seeds)
    looks = [look for look in final.looks if look < len(seeds)]
    final = replace(final, seeds=[*seeds], looks=[*looks, len(seeds)] if looks else [])
    searching = [seed for seed in sweep.seeds if may_share or seed not in seeds]
    number = len(sweep.seeds) // len(suite.final.seeds) * len(seeds) if sweep.repeated else len(sweep.seeds)
    sweep = replace(sweep, seeds=_extended(searching, number, seeds))
    return replace(suite, sweep=sweep, final=final)


def _extended(seeds: Sequence[int], number: int, taken: Sequence[int]) -> list[int]:
    """The first seeds of a list, and more after its largest one if it has too few, other than those taken."""
    more = (seed for seed in count(max(seeds, default=-1) + 1) if seed not in taken)
    return [*seeds[:number], *islice(more, max(number - len(seeds), 0))]


def _units(suite: Suite) -> dict[str, int]:
    """Of each arena the steps that become the given ones: its own, or those of a cell to which it is in proportion."""
    ladders: dict[str, int] = {}
    for plan in suite.arenas.values():
        if plan.cell and plan.cell.size:
            ladders[plan.cell.family] = min(plan.steps, ladders.get(plan.cell.family, plan.steps))

    def unit(plan: ArenaPlan) -> int:
        if plan.cell is None:
            return plan.steps
        return (
            suite.arenas[plan.cell.curve_of].steps if plan.cell.curve_of else ladders.get(plan.cell.family, plan.steps)
        )

    return {name: unit(plan) for name, plan in suite.arenas.items()}


def with_steps(suite: Suite, steps: int) -> Suite:
    """A suite with final trials of that many steps; search trials, warm-up and log intervals keep their shares.

    Cells with other horizons have as many more or fewer; on a ladder the shortest trials have that many. Options of
    optimizers and shocks that count steps stay as they are.
    """
    units = _units(suite)

    def rescaled(plan: ArenaPlan, unit: int) -> ArenaPlan:
        own, sweep = (max(round(x * steps / unit), 1) for x in (plan.steps, plan.sweep_steps))
        return replace(plan, steps=own, sweep_steps=sweep)

    arenas = {name: rescaled(plan, units[name]) for name, plan in suite.arenas.items()}
    before, after = (min(min(x.steps, x.sweep_steps) for x in plans.values()) for plans in (suite.arenas, arenas))

    def scaled(number: int) -> int:
        return number * after // before  # rounded down, so that it fits into the shortest trial as before

    training = suite.training
    training = replace(
        training, warmup_steps=scaled(training.warmup_steps), log_every=max(scaled(training.log_every), 1)
    )
    extra: dict[str, list[Any]] = dict(suite.sweep.extra)
    if WARMUP in extra:
        extra[WARMUP] = [scaled(number) for number in extra[WARMUP]]
    return replace(suite, arenas=arenas, training=training, sweep=replace(suite.sweep, extra=extra))
