"""Users' arenas: the facts and defaults of a class are put into its table of a suite.

So planning and reporting need only the suite, and a study can be read without the class.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from fairbench.arenas.base import Arena, ArenaFacts
from fairbench.arenas.registry import ARENAS, known_arenas, load_arena
from fairbench.common.coercion import KeyPath, Wrong
from fairbench.common.errors import UsageError, unknown
from fairbench.common.json_values import is_json

NEEDED = ("build_model", "loss", "scores")
"""The methods that a subclass of `Arena` must define."""


def completed(name: str, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of an arena in a suite; that of a user's arena with its defaults and every option of model and data.

    Args:
        name: the arena's name.
        table: its table; `task` may be a known name, `module:Class` or `path/to/file.py:Class`.

    Raises:
        Wrong: the class does not exist or is no arena, or an option is no argument of its methods.
    """
    path, task = ("arenas", name), table.get("task", name)
    if "facts" in table:
        raise Wrong((*path, "facts"), "come from the arena's class; leave them out")
    if not isinstance(task, str) or task in ARENAS:
        return table
    reference = known_arenas().get(task, task)
    where = (*path, "task") if "task" in table else path
    if ":" not in reference:
        custom = 'a custom one needs task = "path/to/file.py:Class"'
        raise Wrong(where, f"{unknown('arena', task, known_arenas())}; {custom}")
    try:
        arena = load_arena(reference)
        facts = _facts(arena, reference)
    except UsageError as error:
        raise Wrong(where, error) from error
    full = {"data": {}, "model": {}, **arena.defaults, **table, "task": reference, "facts": asdict(facts)}
    full["model"] = _arguments(_parameters(arena.build_model)[1:], full["model"], (*path, "model"))
    if isinstance(full["data"], Mapping) and "source" not in full["data"]:
        if not _has(arena, "load_data"):
            reason = 'needs a source, as in data = { source = "digits" }, or the arena a method load_data'
            raise Wrong((*path, "data"), reason)
        full["data"] = _arguments(_parameters(arena.load_data), full["data"], (*path, "data"))
    return full


def _has(arena: Arena, method: str) -> bool:
    """Whether a user's arena defines a method itself."""
    return getattr(type(arena), method) is not getattr(Arena, method)


def _facts(arena: Arena, reference: str) -> ArenaFacts:
    """The facts of a user's arena.

    Raises:
        UsageError: they or a method are missing.
    """
    facts = getattr(arena, "facts", None)
    if not isinstance(facts, ArenaFacts):
        example = 'facts = ArenaFacts(title="my work", metrics={"loss": "min"})'
        raise UsageError(f"arena {reference!r} must have facts, as in: {example}; got {facts!r}")
    for method in NEEDED:
        if not _has(arena, method):
            raise UsageError(f"arena {reference!r} has no method {method}; see fairbench.arenas.base.Arena")
    if not facts.metrics:
        raise UsageError(f'arena {reference!r}: its facts must name at least one metric, as metrics={{"loss": "min"}}')
    return facts


def _parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(method).parameters.values())


def _arguments(arguments: list[inspect.Parameter], given: Any, path: KeyPath) -> dict[str, Any]:
    """Every option of a method, defaults included.

    Raises:
        Wrong: an option is unknown, missing, or no plain value.
    """
    if not isinstance(given, Mapping):
        raise Wrong(path, f"must be a table, got {given!r}")
    options = {x.name: x.default for x in arguments if x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)}
    takes_any = any(x.kind is x.VAR_KEYWORD for x in arguments)
    for key in given:
        if key not in options and not takes_any:
            raise Wrong((*path, key), unknown("option", key, options))
    for key in options.keys() - given.keys():
        if options[key] is inspect.Parameter.empty:
            raise Wrong((*path, key), "is missing")
    complete = {**options, **given}
    for key, value in complete.items():
        if not is_json(value):
            raise Wrong((*path, key), f"must be a finite plain value, got {value!r}")
    return json.loads(json.dumps(complete))  # type: ignore[no-any-return]
