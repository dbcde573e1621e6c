"""From the arenas of a suite file to those of the suite.

A user's arena gets the facts and defaults of its class, so that a study can be read without the class. Several
arenas are made of one by the sizes of a ladder, by schedules, horizons of the reference and shocks. Each is an arena of
its own, with its own trials; a twin with a shock uses the rates that are selected without it.
"""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from fairbench.arenas.base import Arena, ArenaFacts
from fairbench.arenas.program import TASK, program_table
from fairbench.arenas.registry import ARENAS, SIZED, known_arenas, load_arena
from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.coercion import KeyPath, Wrong, build, is_json
from fairbench.common.errors import UsageError, unknown
from fairbench.suites.schema import ArenaPlan, Cell, Ladder, Suite, SuiteFile

Named = Iterator[tuple[str, ArenaPlan]]
"""Arenas with their names."""


def arena_plan(name: str, table: Any) -> ArenaPlan:
    """The plan that the table of an arena describes; its `task` may be any class, or it names a program."""
    path = ("arenas", name)
    plan: ArenaPlan = build(ArenaPlan, _completed(path, table) if isinstance(table, Mapping) else table, path)
    return plan


def _completed(path: KeyPath, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of an arena at a path; that of a user's arena or program with its facts and all options."""
    task = table.get("task") or path[-1]
    if "facts" in table:
        raise Wrong((*path, "facts"), "come from the arena's class; leave them out")
    if "program" in table or task == TASK:
        return program_table(path, table)
    if not isinstance(task, str) or task in ARENAS:
        return table
    reference = known_arenas().get(task, task)
    where = (*path, "task") if table.get("task") else path
    if ":" not in reference:
        custom = 'a custom one needs task = "path/to/file.py:Class"'
        raise Wrong(where, f"{unknown('arena', task, known_arenas())}; {custom}")
    try:
        arena = load_arena(reference)
        facts = _facts(arena, reference)
    except UsageError as error:
        raise Wrong(where, error) from error
    full = {"data": {}, "model": {}, **arena.defaults, **table, "task": reference, "facts": asdict(facts)}
    given = build(dict[str, dict[str, Any]], {key: full[key] for key in ("data", "model")}, path)
    arguments = {"model": [*inspect.signature(arena.build_model).parameters.values()][1:]}  # after the data
    if "source" not in given["data"]:
        if not _has(arena, "load_data"):
            reason = 'needs a source, as in data = { source = "digits" }, or the arena a method load_data'
            raise Wrong((*path, "data"), reason)
        arguments["data"] = [*inspect.signature(arena.load_data).parameters.values()]
    return full | {key: _all_options(of, given[key], (*path, key)) for key, of in arguments.items()}


def _has(arena: Arena, method: str) -> bool:
    return getattr(type(arena), method) is not getattr(Arena, method)


def _facts(arena: Arena, reference: str) -> ArenaFacts:
    """The facts of a user's arena. Raises `UsageError` if they or a method are missing."""
    facts = getattr(arena, "facts", None)
    if not isinstance(facts, ArenaFacts):
        example = 'facts = ArenaFacts(title="my work", metrics={"loss": "min"})'
        raise UsageError(f"arena {reference!r} must have facts, as in: {example}; got {facts!r}")
    for method in ("build_model", "loss", "scores"):
        if not _has(arena, method):
            raise UsageError(f"arena {reference!r} has no method {method}; see fairbench.arenas.base.Arena")
    if not facts.metrics:
        raise UsageError(f'arena {reference!r}: its facts must name at least one metric, as metrics={{"loss": "min"}}')
    return facts


def _all_options(arguments: Sequence[inspect.Parameter], given: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
    """The given options of a method with these arguments, and the defaults of the others."""
    options = {x.name: x.default for x in arguments if x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)}
    takes_any = any(x.kind is x.VAR_KEYWORD for x in arguments)
    for key in given:
        if key not in options and not takes_any:
            raise Wrong((*path, key), unknown("option", key, options))
    complete = {**options, **given}
    for key, value in complete.items():
        if value is inspect.Parameter.empty:
            raise Wrong((*path, key), "is missing")
        if not is_json(value):
            raise Wrong((*path, key), f"must be a finite plain value, got {value!r}")
    return json.loads(json.dumps(complete))  # type: ignore[no-any-return]


def expanded(file: SuiteFile) -> Suite:
    """The suite of a checked file, with the arenas that `ladder`, `schedules`, `horizons` and `shock` make."""
    made = {name: dict(_made_of(name, plan, file)) for name, plan in file.arenas.items()}
    arenas: dict[str, ArenaPlan] = {}
    for name, of in made.items():
        if taken := sorted(of.keys() & (arenas.keys() | file.arenas.keys() - {name})):
            raise Wrong(("arenas", taken[0]), f"has the name of an arena that is made of {name}; rename it")
        arenas |= of
    twins = {twin: plan for name, of in arenas.items() for twin, plan in _twins(name, of, file.shock)}
    if taken := sorted(twins.keys() & arenas.keys()):
        raise Wrong(("arenas", taken[0]), "has the name of a twin with a shock; rename it")
    optimizers = {
        name: replace(plan, arenas={x: own for arena, own in plan.arenas.items() for x in made.get(arena, [arena])})
        for name, plan in file.optimizers.items()
        if plan.arenas
    }
    values = {x.name: getattr(file, x.name) for x in fields(Suite)}
    changed = {"arenas": {**arenas, **twins}, "optimizers": {**file.optimizers, **optimizers}}
    return Suite(**{**values, **changed})


def _made_of(family: str, plan: ArenaPlan, file: SuiteFile) -> Named:
    """The arenas that replace one of the file: it alone, if the file makes nothing of it."""
    task = plan.task or family
    sized = _sized(family, replace(plan, task=task), file.ladder[family]) if family in file.ladder else [(family, plan)]
    for size, of_size in sized:
        scheduled = [
            (f"{size}-{x}", replace(of_size, task=task, schedule=x, cell=of_size.cell or Cell(family)))
            for x in file.schedules
        ]
        for name, of_schedule in scheduled or [(size, of_size)]:
            yield name, of_schedule
            for x in file.horizons if not (plan.shock or plan.tuned_on) else ():
                if x != 1:  # with another horizon, the reference alone is trained
                    cell = Cell(family, x, curve_of=name)
                    yield f"{name}-x{x:g}", _longer(replace(of_schedule, task=task, cell=cell), x)


def _sized(family: str, plan: ArenaPlan, ladder: Ladder) -> Named:
    """The cells of a ladder; a model with more parameters is trained for as many more steps."""
    models = [_at_size(family, plan, size) for size in ladder.sizes]
    for size, (model, parameters) in zip(ladder.sizes, models, strict=True):
        for x in ladder.horizons:
            cell = replace(plan, model=model, cell=Cell(family, x, size, parameters))
            yield f"{family}-{size}-x{x:g}", _longer(cell, x * parameters / models[0][1])


def _at_size(family: str, plan: ArenaPlan, size: int) -> tuple[dict[str, Any], int]:
    """The options of an arena's model at a size, and its parameters."""
    path = ("ladder", family, "sizes")
    try:
        rule = SIZED[plan.task] if plan.task in SIZED else load_arena(plan.task).sized
        return rule(plan.model, size)
    except UsageError as error:
        raise Wrong(path, error) from error
    except (LookupError, TypeError, ValueError) as error:
        raise Wrong(path, f"has {size}, which {error}") from error


def _longer(plan: ArenaPlan, factor: float) -> ArenaPlan:
    steps, sweep_steps = (max(round(factor * x), 1) for x in (plan.steps, plan.sweep_steps))
    return replace(plan, steps=steps, sweep_steps=sweep_steps)


def _twins(name: str, plan: ArenaPlan, shocks: Mapping[str, dict[str, Any]]) -> Named:
    """An arena with each shock that fits its kind of data; the rate is selected without the shock."""
    kind = (plan.facts or ARENAS[plan.task or name]).kind
    for shock, options in shocks.items() if not plan.curve_only else ():
        if kind in SHOCKS[options["kind"]].kinds:
            tuned_on = plan.tuned_on or name
            yield f"{name}-{shock}", replace(plan, task=plan.task or name, tuned_on=tuned_on, shock=options)
