"""The arenas of a suite, made from the arenas of a suite file.

The sizes of a ladder, schedules, horizons of the reference and shocks make several arenas of one. Each is an arena of
its own, with its own trials. A disturbed arena uses the learning rates that are selected without the shock.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from fairbench.arenas.registry import ARENAS, SIZED, load_arena
from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.coercion import Wrong
from fairbench.common.errors import UsageError
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.arenas import ArenaPlan, Ladder, LadderPoint
from fairbench.suites.schema import Suite
from fairbench.suites.suite_file import SuiteFile

Arenas = dict[str, ArenaPlan]
"""Arenas by their names."""


def expanded(file: SuiteFile) -> Suite:
    """The suite of a checked file, with all arenas that its keys `ladder`, `schedules`, `horizons` and `shock` make.

    Raises:
        Wrong: two arenas would have the same name.
    """
    families = {name: _family(name, plan, file) for name, plan in file.arenas.items()}
    arenas = _joined(families, file)
    disturbed: Arenas = {}
    for name, plan in arenas.items():
        disturbed |= _disturbed_arenas(name, plan, file.shock)
    for name in sorted(disturbed):
        if name in arenas:
            raise Wrong(("arenas", name), "has the name of a disturbed arena; rename it")
    values = {field.name: getattr(file, field.name) for field in fields(Suite)}
    values["arenas"] = arenas | disturbed
    values["optimizers"] = {name: _for_families(plan, families) for name, plan in file.optimizers.items()}
    return Suite(**values)


def _joined(families: Mapping[str, Arenas], file: SuiteFile) -> Arenas:
    """The arenas of all families in one dictionary. Raises `Wrong` if two have the same name."""
    arenas: Arenas = {}
    for family, members in families.items():
        for name in sorted(members):
            is_other_arena = name in file.arenas and name != family
            if name in arenas or is_other_arena:
                raise Wrong(("arenas", name), f"has the name of an arena that is made of {family}; rename it")
        arenas |= members
    return arenas


def _for_families(optimizer: OptimizerPlan, families: Mapping[str, Arenas]) -> OptimizerPlan:
    """An optimizer plan whose options for an arena of the file apply to each arena that is made of it."""
    if not optimizer.arenas:
        return optimizer
    options_by_arena = {}
    for arena, options in optimizer.arenas.items():
        for name in families.get(arena, [arena]):
            options_by_arena[name] = options
    return replace(optimizer, arenas=options_by_arena)


def _family(family: str, plan: ArenaPlan, file: SuiteFile) -> Arenas:
    """The arenas that are made of an arena of the file, and replace it.

    Without ladder, schedules and horizons it is only the arena itself.
    """
    task = plan.task or family
    sized = {family: plan}
    if family in file.ladder:
        sized = _with_sizes(family, replace(plan, task=task), file.ladder[family])
    scheduled = sized
    if file.schedules:
        scheduled = _with_schedules(family, task, sized, file.schedules)
    is_tuned_by_itself = not plan.shock and not plan.tuning_arena
    members: Arenas = {}
    for name, member in scheduled.items():
        members[name] = member
        if is_tuned_by_itself:
            members |= _with_horizons(name, family, replace(member, task=task), file.horizons)
    return members


def _with_sizes(family: str, plan: ArenaPlan, ladder: Ladder) -> Arenas:
    """The arenas of a ladder, one for each size and horizon.

    The number of steps grows with the number of parameters.
    """
    models = [_at_size(family, plan, size) for size in ladder.sizes]
    _, fewest_parameters = models[0]
    arenas: Arenas = {}
    for size, (model, parameters) in zip(ladder.sizes, models, strict=True):
        for horizon in ladder.horizons:
            point = LadderPoint(family, horizon=horizon, size=size, parameters=parameters)
            sized = replace(plan, model=model, ladder_point=point)
            arenas[f"{family}-{size}-x{horizon:g}"] = _longer(sized, horizon * parameters / fewest_parameters)
    return arenas


def _at_size(family: str, plan: ArenaPlan, size: int) -> tuple[dict[str, Any], int]:
    """The options of an arena's model at a size, and the number of its parameters."""
    path = ("ladder", family, "sizes")
    try:
        rule = SIZED[plan.task] if plan.task in SIZED else load_arena(plan.task).sized
        return rule(plan.model, size)
    except UsageError as error:
        raise Wrong(path, error) from error
    except (LookupError, TypeError, ValueError) as error:
        raise Wrong(path, f"has {size}, which {error}") from error


def _with_schedules(family: str, task: str, arenas: Arenas, schedules: list[str]) -> Arenas:
    """Several arenas, each with each schedule."""
    scheduled: Arenas = {}
    for name, plan in arenas.items():
        point = plan.ladder_point or LadderPoint(family)
        for schedule in schedules:
            scheduled[f"{name}-{schedule}"] = replace(plan, task=task, schedule=schedule, ladder_point=point)
    return scheduled


def _with_horizons(name: str, family: str, plan: ArenaPlan, horizons: list[float]) -> Arenas:
    """An arena at each horizon other than 1. Only the reference is trained there."""
    arenas: Arenas = {}
    for horizon in horizons:
        if horizon != 1:
            point = LadderPoint(family, horizon=horizon, reference_curve_arena=name)
            arenas[f"{name}-x{horizon:g}"] = _longer(replace(plan, ladder_point=point), horizon)
    return arenas


def _longer(plan: ArenaPlan, factor: float) -> ArenaPlan:
    """An arena whose trials have a multiple of the steps."""
    steps = max(round(factor * plan.steps), 1)
    sweep_steps = max(round(factor * plan.sweep_steps), 1)
    return replace(plan, steps=steps, sweep_steps=sweep_steps)


def _disturbed_arenas(name: str, plan: ArenaPlan, shocks: Mapping[str, dict[str, Any]]) -> Arenas:
    """An arena with each shock that fits its kind of data. The learning rate is selected without the shock."""
    disturbed: Arenas = {}
    if plan.curve_only:
        return disturbed  # only the reference is trained there
    task = plan.task or name
    facts = plan.facts or ARENAS[task]
    tuning_arena = plan.tuning_arena or name
    for shock, options in shocks.items():
        if facts.kind in SHOCKS[options["kind"]].kinds:
            disturbed[f"{name}-{shock}"] = replace(plan, task=task, tuning_arena=tuning_arena, shock=options)
    return disturbed
