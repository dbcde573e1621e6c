"""A suite with another number of final seeds, or with longer or shorter trials."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fairbench.optimizers.spec import WARMUP
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.schema import Suite


def with_seeds(suite: Suite, seeds: int | Sequence[int]) -> Suite:
    """A suite with other final seeds, and its interim analyses to match.

    For a number of seeds the suite's own come first.
    """
    final = suite.final
    if isinstance(seeds, int):
        seeds = _numbered(final.seeds, seeds)
    interim_analyses = [
        interim_analysis for interim_analysis in final.interim_analyses if interim_analysis < len(seeds)
    ]
    if interim_analyses:
        interim_analyses.append(len(seeds))
    return replace(suite, final=replace(final, seeds=list(seeds), interim_analyses=interim_analyses))


def _numbered(seeds: Sequence[int], number: int) -> list[int]:
    """A number of seeds: the first ones of these, then further ones above them."""
    first_new = max(seeds) + 1
    missing = max(number - len(seeds), 0)
    return [*seeds[:number], *range(first_new, first_new + missing)]


def with_steps(suite: Suite, steps: int) -> Suite:
    """A suite with final trials of that many steps; search trials, warm-up and log intervals keep their shares.

    Cells with other horizons have as many more or fewer; on a ladder the shortest trials have that many. Options of
    optimizers and shocks that count steps stay as they are.
    """
    arenas = {name: _rescaled(suite, plan, steps) for name, plan in suite.arenas.items()}
    before = _shortest(suite.arenas.values())
    after = _shortest(arenas.values())

    def scaled(number: int) -> int:
        return number * after // before  # rounded down, so that it fits into the shortest trial as before

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
    unit = _unit(suite.arenas, plan)
    final_steps = max(round(plan.steps * steps / unit), 1)
    sweep_steps = max(round(plan.sweep_steps * steps / unit), 1)
    return replace(plan, steps=final_steps, sweep_steps=sweep_steps)


def _unit(arenas: Mapping[str, ArenaPlan], plan: ArenaPlan) -> int:
    """The steps that become the given ones: an arena's own, or those of the arena to which it is in proportion."""
    if plan.ladder_point is None:
        return plan.steps
    if plan.ladder_point.reference_curve_arena in arenas:
        return arenas[plan.ladder_point.reference_curve_arena].steps
    if not plan.ladder_point.size:
        return plan.steps
    steps_on_ladder = []
    for other in arenas.values():
        if other.ladder_point and other.ladder_point.size and other.ladder_point.family == plan.ladder_point.family:
            steps_on_ladder.append(other.steps)
    return min(steps_on_ladder)


def _shortest(plans: Iterable[ArenaPlan]) -> int:
    """The steps of the shortest trial of some arenas."""
    return min(min(plan.steps, plan.sweep_steps) for plan in plans)
