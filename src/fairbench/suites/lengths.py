"""A suite with another number of final seeds, or with longer or shorter trials.

Arenas may be points of one family: the same task at several horizons, which make a curve of steps, or at several sizes,
which make a ladder. All points of a family are scaled by the same factor.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fairbench.optimizers.spec import WARMUP
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.schema import Suite


def with_seeds(suite: Suite, seeds: int | Sequence[int]) -> Suite:
    """A suite with other final seeds. Its interim analyses are adapted to the number of seeds.

    `seeds` may also be a number: the suite then keeps its own seeds as far as possible.
    """
    final = suite.final
    if isinstance(seeds, int):
        seeds = _numbered(final.seeds, seeds)
    interim_analyses = [number for number in final.interim_analyses if number < len(seeds)]
    if interim_analyses:
        interim_analyses.append(len(seeds))
    return replace(suite, final=replace(final, seeds=list(seeds), interim_analyses=interim_analyses))


def _numbered(seeds: Sequence[int], number: int) -> list[int]:
    """As many seeds as `number`: first the given seeds, then further ones above the largest."""
    first_new = max(seeds) + 1
    missing = max(number - len(seeds), 0)
    return [*seeds[:number], *range(first_new, first_new + missing)]


def with_steps(suite: Suite, steps: int) -> Suite:
    """A suite whose final trials have `steps` steps. Search trials, warm-up and log intervals keep their shares.

    An arena at another horizon is scaled by the same factor. On a ladder, the shortest final trials have `steps` steps.
    Options of optimizers and shocks that count steps stay as they are.
    """
    arenas = {name: _rescaled(suite, plan, steps) for name, plan in suite.arenas.items()}
    before = _shortest(suite.arenas.values())
    after = _shortest(arenas.values())

    def scaled(number: int) -> int:
        return number * after // before  # rounded down, so that it still fits into the shortest trial

    training = replace(
        suite.training,
        warmup_steps=scaled(suite.training.warmup_steps),
        log_every=max(scaled(suite.training.log_every), 1),
    )
    extra = dict(suite.sweep.extra)
    if WARMUP in extra:
        extra[WARMUP] = [scaled(number) for number in extra[WARMUP]]
    return replace(suite, arenas=arenas, training=training, sweep=replace(suite.sweep, extra=extra))


def _rescaled(suite: Suite, plan: ArenaPlan, steps: int) -> ArenaPlan:
    """An arena with other steps, where its reference number of steps becomes `steps`."""
    reference_steps = _reference_steps(suite.arenas, plan)
    final_steps = max(round(plan.steps * steps / reference_steps), 1)
    sweep_steps = max(round(plan.sweep_steps * steps / reference_steps), 1)
    return replace(plan, steps=final_steps, sweep_steps=sweep_steps)


def _reference_steps(arenas: Mapping[str, ArenaPlan], plan: ArenaPlan) -> int:
    """The steps of the arena by which an arena is scaled.

    It is the arena itself if it is no point of a family, the reference of its curve if that is in the suite, and
    otherwise the shortest arena of its ladder.
    """
    if plan.ladder_point is None:
        return plan.steps
    if plan.ladder_point.reference_curve_arena in arenas:
        return arenas[plan.ladder_point.reference_curve_arena].steps
    if not plan.ladder_point.size:
        return plan.steps  # it is not on a ladder of sizes
    steps_on_ladder = []
    for other in arenas.values():
        if other.ladder_point and other.ladder_point.size and other.ladder_point.family == plan.ladder_point.family:
            steps_on_ladder.append(other.steps)
    return min(steps_on_ladder)


def _shortest(plans: Iterable[ArenaPlan]) -> int:
    """The number of steps of the shortest trial of some arenas."""
    return min(min(plan.steps, plan.sweep_steps) for plan in plans)
