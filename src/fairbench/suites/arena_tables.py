"""The plan of an arena, from its table in a suite file.

A user's arena gets the facts and defaults of its class, so that a study can be read without the class.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from fairbench.arenas.base import Arena, ArenaFacts
from fairbench.arenas.program import TASK, program_table
from fairbench.arenas.registry import ARENAS, known_arenas, load_arena
from fairbench.common.coercion import KeyPath, Wrong, build, is_json
from fairbench.common.errors import UsageError, unknown
from fairbench.suites.arenas import ArenaPlan


def arena_plan(name: str, table: Any) -> ArenaPlan:
    """The plan that the table of an arena describes.

    Args:
        name: the name of the arena.
        table: its table in a suite file. The `task` may be any class, and the table may name a program instead.

    Raises:
        Wrong: a value does not fit.
    """
    path = ("arenas", name)
    if isinstance(table, Mapping):
        table = _completed(path, table)
    plan: ArenaPlan = build(ArenaPlan, table, path)
    return plan


def _completed(path: KeyPath, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of an arena with everything that it needs. The table of a user's arena gets its facts and all options.

    `path` ends in the name of the arena.
    """
    if "facts" in table:
        raise Wrong((*path, "facts"), "come from the arena's class; leave them out")
    task = table.get("task") or path[-1]
    if "program" in table or task == TASK:
        return program_table(path, table)
    if not isinstance(task, str) or task in ARENAS:
        return table  # an included arena, or a wrong value that is reported later
    reference = known_arenas().get(task, task)
    task_path = (*path, "task") if table.get("task") else path
    if ":" not in reference:
        custom = 'a custom one needs task = "path/to/file.py:Class"'
        raise Wrong(task_path, f"{unknown('arena', task, known_arenas())}; {custom}")
    try:
        arena = load_arena(reference)
        facts = _facts(arena, reference)
    except UsageError as error:
        raise Wrong(task_path, error) from error
    completed = {"data": {}, "model": {}, **arena.defaults, **table}
    completed["task"] = reference
    completed["facts"] = asdict(facts)
    return _with_options(path, completed, arena)


def _with_options(path: KeyPath, table: dict[str, Any], arena: Arena) -> dict[str, Any]:
    """The table of a user's arena with all options of its model, and of its data if the arena loads them itself."""
    data: dict[str, Any] = build(dict[str, Any], table["data"], (*path, "data"))
    model: dict[str, Any] = build(dict[str, Any], table["model"], (*path, "model"))
    if "source" not in data and not _has(arena, "load_data"):
        reason = 'needs a source, such as data = { source = "digits" }, or the arena a method load_data'
        raise Wrong((*path, "data"), reason)
    model_arguments = _arguments(arena.build_model)[1:]  # the first argument is the data, and not an option
    completed = dict(table)
    completed["model"] = _all_options(model_arguments, model, (*path, "model"))
    if "source" not in data:
        completed["data"] = _all_options(_arguments(arena.load_data), data, (*path, "data"))
    return completed


def _has(arena: Arena, method: str) -> bool:
    """Whether the class of an arena defines a method, and does not only inherit it from Arena."""
    return getattr(type(arena), method) is not getattr(Arena, method)


def _facts(arena: Arena, reference: str) -> ArenaFacts:
    """The facts of a user's arena. Raises `UsageError` if the facts or a required method are missing."""
    facts = getattr(arena, "facts", None)
    if not isinstance(facts, ArenaFacts):
        example = 'facts = ArenaFacts(title="my work", metrics={"loss": "min"})'
        raise UsageError(f"arena {reference!r} must have facts, such as {example}; got {facts!r}")
    for method in ("build_model", "loss", "scores"):
        if not _has(arena, method):
            raise UsageError(f"arena {reference!r} has no method {method}; see fairbench.arenas.base.Arena")
    if not facts.metrics:
        raise UsageError(
            f'arena {reference!r}: its facts must name at least one metric, such as metrics={{"loss": "min"}}'
        )
    return facts


def _arguments(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """The arguments of a bound method, without `self`."""
    return list(inspect.signature(method).parameters.values())


def _all_options(arguments: list[inspect.Parameter], given: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
    """The options of a method with these arguments: the given values, and the defaults of all other options.

    Raises `Wrong` if a given option is unknown, if a required one is missing, or if a value is not plain JSON.
    """
    options: dict[str, Any] = {}
    takes_any = False
    for argument in arguments:
        if argument.kind is inspect.Parameter.VAR_KEYWORD:
            takes_any = True
        elif argument.kind is not inspect.Parameter.VAR_POSITIONAL:
            options[argument.name] = argument.default
    for key in given:
        if key not in options and not takes_any:
            raise Wrong((*path, key), unknown("option", key, options))
    options.update(given)
    for key, value in options.items():
        if value is inspect.Parameter.empty:
            raise Wrong((*path, key), "is missing")
        if not is_json(value):
            raise Wrong((*path, key), f"must be a finite plain value, got {value!r}")
    return json.loads(json.dumps(options))  # type: ignore[no-any-return]
