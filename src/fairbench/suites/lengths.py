"""A suite with other numbers of seeds or steps, and what depends on them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any

from fairbench.optimizers.spec import WARMUP
from fairbench.suites.schema import Suite


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


def with_steps(suite: Suite, steps: int) -> Suite:
    """A suite with final trials of that many steps; search trials, warm-up and log intervals keep their shares.

    Options of optimizers and shocks that count steps stay as they are.
    """
    arenas = {
        name: replace(arena, steps=steps, sweep_steps=max(round(arena.sweep_steps * steps / arena.steps), 1))
        for name, arena in suite.arenas.items()
    }
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
