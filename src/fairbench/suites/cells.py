"""Arenas that a suite file makes of one: sizes of a ladder, schedules, and horizons of the reference.

Each is an arena of its own, with its own search and its own trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from fairbench.arenas.registry import load_arena
from fairbench.arenas.sizes import SIZED, Sized
from fairbench.common.coercion import KeyPath, Wrong, build
from fairbench.common.errors import UsageError, unknown
from fairbench.optimizers.resolve import SCHEDULES

Tables = dict[str, dict[str, Any]]
"""The tables of arenas of a suite file, by name."""


@dataclass(frozen=True)
class Ladder:
    """Sizes and horizons of one arena; each size is trained with each horizon.

    Attributes:
        sizes: widths of the model, rising, from which the rest of it follows, see `fairbench.arenas.sizes`.
        horizons: steps as a multiple of the arena's, which are those of the first size and grow as the parameters.
    """

    sizes: list[int]
    horizons: list[float]


def with_cells(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a suite file, with the arenas that `ladder`, `schedules` and `horizons` make.

    Raises:
        Wrong: one of the three is not possible.
    """
    rest = {key: value for key, value in content.items() if key not in ("ladder", "schedules", "horizons")}
    arenas = content.get("arenas", {})
    if len(rest) == len(content) or not (_is_table(arenas) and all(map(_is_table, arenas.values()))):
        return rest
    ladders = _ladders(content.get("ladder", {}), arenas)
    schedules, horizons = _schedules(content), _horizons(content)
    if ladders and horizons:
        raise Wrong(("horizons",), "a suite with a ladder has them there, as in [ladder.gpt]; leave them out here")
    cells: Tables = {}
    for name, table in arenas.items():
        sized = dict(_sized(name, table, ladders[name])) if name in ladders else {name: table}
        for of_size, each in sized.items():
            scheduled = dict(_scheduled(of_size, name, each, schedules)) if schedules else {of_size: each}
            for of_schedule, one in scheduled.items():
                made = {of_schedule: one, **_curve(of_schedule, name, one, horizons)}
                if taken := sorted(made.keys() & (cells.keys() | arenas.keys() - {name})):
                    raise Wrong(("arenas", taken[0]), f"has the name of an arena that is made of {name}; rename it")
                cells |= made
    return {**rest, "arenas": cells, "optimizers": _with_options(content.get("optimizers", {}), cells)}


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _ladders(tables: Any, arenas: Tables) -> dict[str, Ladder]:
    if not _is_table(tables):
        reason = 'has a table for each arena, as [ladder.gpt]; a control ladder is controls = ["AdamW", ...]'
        raise Wrong(("ladder",), reason)
    ladders: dict[str, Ladder] = build(dict[str, Ladder], tables, ("ladder",))
    for name, ladder in ladders.items():
        if name not in arenas:
            raise Wrong(("ladder", name), unknown("arena", name, arenas))
        for key, values in vars(ladder).items():
            _check_rising(("ladder", name, key), values)
    return ladders


def _schedules(content: Mapping[str, Any]) -> list[str]:
    schedules: list[str] = build(list[str], content.get("schedules", []), ("schedules",))
    for schedule in schedules:
        if schedule not in SCHEDULES:
            raise Wrong(("schedules",), unknown("schedule", schedule, SCHEDULES))
    if len(set(schedules)) < len(schedules):
        raise Wrong(("schedules",), f"must each be there once, got {schedules}")
    return schedules


def _horizons(content: Mapping[str, Any]) -> list[float]:
    horizons: list[float] = build(list[float], content.get("horizons", [1]), ("horizons",))
    _check_rising(("horizons",), horizons)
    return [horizon for horizon in horizons if horizon != 1]


def _check_rising(path: KeyPath, values: list[float]) -> None:
    if not values or list(values) != sorted(set(values)) or not all(x > 0 and isfinite(x) for x in values):
        raise Wrong(path, f"must be positive numbers that rise, got {values}")


def _sized(name: str, table: Mapping[str, Any], ladder: Ladder) -> Iterator[tuple[str, dict[str, Any]]]:
    """The cells of a ladder; a model with more parameters is trained for as many more steps."""
    rule, model, path = _rule(name, table), table.get("model"), ("ladder", name)
    models = [(size, *_at_size(rule, model, size, (*path, "sizes"))) for size in ladder.sizes]
    for size, options, parameters in models:
        for horizon in ladder.horizons:
            cell = {"family": name, "horizon": horizon, "size": size, "parameters": parameters}
            longer = _with_steps(table, horizon * parameters / models[0][2], (*path, "horizons"))
            yield f"{name}-{size}-x{horizon:g}", {**longer, "task": _task(name, table), "model": options, "cell": cell}


def _at_size(rule: Sized, model: Any, size: int, path: KeyPath) -> tuple[dict[str, Any], int]:
    try:
        return rule(model, size)
    except KeyError as error:
        raise Wrong(path, f"need the option {error} of the arena's model") from error
    except UsageError as error:
        raise Wrong(path, error) from error
    except (ValueError, TypeError) as error:
        raise Wrong(path, f"has {size}, which {error}") from error


def _rule(name: str, table: Mapping[str, Any]) -> Sized:
    task = _task(name, table)
    if task in SIZED:
        return SIZED[task]
    try:
        return load_arena(task).sized
    except UsageError as error:
        raise Wrong(("ladder", name), error) from error


def _scheduled(name: str, family: str, table: Mapping[str, Any], schedules: list[str]) -> Iterator[tuple[str, Any]]:
    """The cells of an arena with each schedule."""
    for schedule in schedules:
        cell = table.get("cell", {"family": family})
        yield f"{name}-{schedule}", {**table, "task": _task(family, table), "schedule": schedule, "cell": cell}


def _curve(name: str, family: str, table: Mapping[str, Any], horizons: list[float]) -> Tables:
    """The cells in which the reference alone is trained, with other horizons; none of an arena without a search."""
    if table.get("shock") or table.get("tuned_on"):
        return {}
    shared = {**table, "task": _task(family, table)}
    cells = {x: {"family": family, "horizon": x, "curve_of": name} for x in horizons}
    return {f"{name}-x{x:g}": {**_with_steps(shared, x, ("horizons",)), "cell": cell} for x, cell in cells.items()}


def _task(name: str, table: Mapping[str, Any]) -> str:
    return str(table.get("task") or name)


def _with_steps(table: Mapping[str, Any], factor: float, path: KeyPath) -> dict[str, Any]:
    """The table of an arena with a multiple of its steps, and of those of its sweep."""
    numbers = {key: table[key] for key in ("steps", "sweep_steps") if key in table}
    if not all(type(x) is int for x in numbers.values()):
        raise Wrong(path, f"multiply the arena's steps and sweep_steps, which must be whole numbers, got {numbers}")
    return {**table, **{key: max(round(factor * x), 1) for key, x in numbers.items()}}


def _with_options(optimizers: Any, cells: Tables) -> Any:
    """The optimizers, whose options for an arena are those of every cell that is made of it."""
    if not _is_table(optimizers):
        return optimizers

    def of_cells(given: Mapping[str, Any]) -> dict[str, Any]:
        made_of = {name: table.get("cell", {}).get("family", name) for name, table in cells.items()}
        return {name: given[x] for name, x in made_of.items() if x in given} | {
            name: options for name, options in given.items() if name not in made_of.values()
        }

    return {
        name: {**x, "arenas": of_cells(x["arenas"])} if _is_table(x) and _is_table(x.get("arenas")) else x
        for name, x in optimizers.items()
    }
