"""Checks of a suite beyond its types: what its keys must have together, and the options of data, shocks and models."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.coercion import KeyPath, Wrong, build, build_keys
from fairbench.data.datasets.registry import DATASETS, READING
from fairbench.optimizers.resolve import rates_of
from fairbench.optimizers.spec import WARMUP, OptimizerPlan, ResolvedOptimizer
from fairbench.optimizers.treatments import SCHEDULES
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.key_checks import check_known, check_references, check_rising, check_values
from fairbench.suites.ranges import POSITIVE
from fairbench.suites.schema import Suite
from fairbench.suites.search import Search, check_sweep
from fairbench.suites.stages import Final, Sweep
from fairbench.suites.suite_file import SuiteFile
from fairbench.suites.variants import check_variants

NAME = r"[\w.\-]*\w"
"""The form of a suite's name."""


def check_file(file: SuiteFile) -> None:
    """Raise `Wrong` for the first error in a suite file that makes further arenas."""
    if not (file.ladder or file.horizons or file.schedules or file.shock):
        return  # it makes no further arenas; `check_suite` checks those that it has
    check_values(file)
    for name, arena in file.arenas.items():
        _check_arena(file, name, arena)
    for name, ladder in file.ladder.items():
        check_known(("ladder", name), "arena", [name], file.arenas)
        for key, values in vars(ladder).items():
            check_rising(("ladder", name, key), values)
    if file.horizons:
        check_rising(("horizons",), file.horizons)
    check_known(("schedules",), "schedule", file.schedules, SCHEDULES)
    if len(set(file.schedules)) < len(file.schedules):
        raise Wrong(("schedules",), f"must name each schedule once, got {file.schedules}")
    if file.ladder and file.horizons:
        reason = "a suite with a ladder gives horizons with the ladder, such as [ladder.gpt]; leave them out here"
        raise Wrong(("horizons",), reason)
    for name, shock in file.shock.items():
        kind = str(shock.get("kind"))
        check_known(("shock", name, "kind"), "shock for this arena", [kind], SHOCKS)
        _check_shock(("shock", name), shock)


def check_suite(suite: Suite) -> None:
    """Raise `Wrong` for the first error in a suite."""
    if not re.fullmatch(NAME, suite.name):
        raise Wrong(("name",), f"must be made of letters, digits, '_', '-' and '.', got {suite.name!r}")
    if not suite.arenas:
        raise Wrong(("arenas",), "needs at least one arena")
    check_values(suite)
    check_references(suite)
    check_variants(suite)
    check_sweep(suite.sweep)
    for name, arena in suite.arenas.items():
        _check_arena(suite, name, arena)
    _check_lengths(suite)
    _check_seeds(("sweep", "seeds"), suite.sweep.seeds)
    _check_seeds(("final", "seeds"), suite.final.seeds)
    _check_interim_analyses(suite.final)
    for name, optimizer in suite.optimizers.items():
        _check_optimizer(suite, name, optimizer)


def _check_arena(suite: Suite, name: str, arena: ArenaPlan) -> None:
    """Raise `Wrong` for the first error in an arena, apart from the ranges of single keys."""
    path = ("arenas", name)
    facts = suite.facts(name)
    is_on_ladder = arena.ladder_point is not None and arena.ladder_point.size > 0
    if is_on_ladder and facts.metrics[arena.metric] == "max":
        reason = f"must be one whose minimum is best on a ladder, such as a loss, got {arena.metric!r}"
        raise Wrong((*path, "metric"), reason)
    if not arena.batch_size and facts.kind != "program":
        raise Wrong((*path, "batch_size"), "must be at least 1, got 0")
    if arena.tuning_arena:
        _check_tuning_arena((*path, "tuning_arena"), suite, name)
    if "source" in arena.data:
        dataset = DATASETS[arena.data["source"]]
        known = {"source": str, **READING[facts.kind], **dataset.suite_options}
        _check_options((*path, "data"), arena.data, known)
    if facts.model_options is not None:
        _check_options((*path, "model"), arena.model, facts.model_options)
    if arena.shock:
        _check_shock((*path, "shock"), arena.shock)


def _check_tuning_arena(path: KeyPath, suite: Suite, name: str) -> None:
    """Raise `Wrong` unless the arena that tunes for another one has a sweep, and the same task and metric."""
    arena = suite.arenas[name]
    tuning = suite.arenas[arena.tuning_arena]
    has_same_task = suite.task(arena.tuning_arena) == suite.task(name)
    has_same_metric = tuning.metric == arena.metric
    if tuning.tuning_arena or not has_same_task or not has_same_metric:
        raise Wrong(path, f"must name an arena of the same task and metric with a sweep, got {arena.tuning_arena!r}")


def _check_shock(path: KeyPath, shock: Mapping[str, Any]) -> None:
    """Raise `Wrong` for the first error in the options of a shock, whose kind is known."""
    options = SHOCKS[shock["kind"]].options
    # "kind" and "at" are required, and have their types; "steps" has its default
    _check_options(path, shock, {"kind": str, "at": list[float], "steps": 1, **options})
    fractions = shock["at"]
    if not fractions or not all(0 <= fraction < 1 for fraction in fractions):
        raise Wrong((*path, "at"), f"must be fractions of the training in [0, 1), got {fractions}")
    for key in ("steps", *options):
        POSITIVE.check((*path, key), shock.get(key))


def _check_options(path: KeyPath, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise `Wrong` for the first option with an unknown name, a wrong type or a wrong sign.

    `known` has the type of each required option, and the default of each other option.
    """
    required = []
    types = {}
    for key, type_or_default in known.items():
        if isinstance(type_or_default, int | float | str | list):
            types[key] = type(type_or_default)
        else:
            required.append(key)
            types[key] = type_or_default
    for key, value in build_keys(types, required, options, path).items():
        least = 1 if known[key] is int else 0  # a required whole number must be positive
        values = value if isinstance(value, list) else [value]
        if any(type(number) is int and number < least for number in values):
            raise Wrong((*path, key), f"must be at least {least}, got {value!r}")


def _check_lengths(suite: Suite) -> None:
    """Raise `Wrong` if a warm-up or a window of the training loss is too long for the shortest trials."""
    shortest = min(min(arena.steps, arena.sweep_steps) for arena in suite.arenas.values())
    training = suite.training
    _check_fits(("training", WARMUP), [training.warmup_steps], most=shortest - 1, shortest=shortest)
    _check_fits(("training", "log_every"), [training.log_every], most=shortest, shortest=shortest)
    warmups = suite.sweep.extra.get(WARMUP, [])
    _check_fits(("sweep", "extra", WARMUP), warmups, most=shortest - 1, shortest=shortest)


def _check_fits(path: KeyPath, lengths: Sequence[int], most: int, shortest: int) -> None:
    """Raise `Wrong` if one of some numbers of steps is above `most`. The shortest trials have `shortest` steps."""
    if lengths and max(lengths) > most:
        reason = f"must be at most {most}, since the shortest trials have {shortest} steps; got {max(lengths)}"
        raise Wrong(path, reason)


def _check_seeds(path: KeyPath, seeds: Sequence[int]) -> None:
    """Raise `Wrong` unless seeds are distinct whole numbers that torch accepts."""
    are_distinct = len(set(seeds)) == len(seeds)
    if not seeds or not are_distinct or min(seeds) < 0 or max(seeds) >= 2**63:
        raise Wrong(path, f"must be distinct whole numbers in [0, 2^63), got {seeds}")


def _check_interim_analyses(final: Final) -> None:
    """Raise `Wrong` unless the interim analyses rise to the number of seeds.

    The first one must not come before the number of settings is reduced to two.
    """
    interim_analyses = final.interim_analyses
    if not interim_analyses:
        return
    most = len(final.seeds)
    rising = interim_analyses == sorted(set(interim_analyses))
    if len(interim_analyses) < 2 or interim_analyses[0] < 2 or interim_analyses[-1] != most or not rising:
        need = f"must be two or more numbers of seeds that rise from at least 2 to {most}, as many as there are seeds"
        raise Wrong(("final", "interim_analyses"), f"{need}; got {interim_analyses}")
    if interim_analyses[0] < final.halve_after:
        raise Wrong(
            ("final", "halve_after"),
            f"must be at most {interim_analyses[0]}, the first interim analysis; got {final.halve_after}",
        )


def _check_optimizer(suite: Suite, name: str, plan: OptimizerPlan) -> None:
    """Raise `Wrong` if the plan of an optimizer contradicts itself, the schedules or the search of the suite."""
    path = ("optimizers", name)
    schedules = _schedules_as_factor(suite)
    if plan.schedule is not None and schedules:
        each = f"trains every optimizer with each of its schedules ({', '.join(schedules)})"
        raise Wrong((*path, "schedule"), f"contradicts the suite, which {each}; leave one of the two out")
    if plan.lr is not None and plan.lr_scale is not None:
        raise Wrong((*path, "lr_scale"), "scales searched rates, but an optimizer with lr has none; leave one out")
    lr_scale, lr = rates_of(name, plan)
    Search(suite.sweep, lr_scale).check_rates((*path, "lr_scale"))
    searched = ["lr"]  # a fixed rate is given outside `options` as well
    if lr is None:
        searched += suite.sweep.extra
    _check_not_searched((*path, "options"), name, plan.options, searched, lr)
    for arena, options in plan.arenas.items():
        _check_not_searched((*path, "arenas", arena), name, options, searched, lr)


def _schedules_as_factor(suite: Suite) -> list[str]:
    """The schedules that a suite file combines with every optimizer; empty if the file does not combine them."""
    schedules = []
    for arena in suite.arenas.values():
        if arena.ladder_point and arena.schedule and arena.schedule not in schedules:
            schedules.append(arena.schedule)
    return schedules


def _check_not_searched(
    path: KeyPath, name: str, options: Mapping[str, Any], searched: Iterable[str], lr: float | None
) -> None:
    """Raise `Wrong` if the options of an optimizer set a searched hyperparameter, or its learning rate.

    `lr` is the fixed learning rate of the optimizer, or None if it is searched.
    """
    for key in searched:
        if key not in options:
            continue
        if lr is not None:
            reason = (
                f"must stand outside options, such as optimizers.{name}.lr, which fixes the rate; leave it out here"
            )
        elif key == "lr":
            reason = f"is selected by the sweep; leave it out, or fix the rate: optimizers.{name}.lr"
        else:
            reason = "is selected by the sweep; leave it out"
        raise Wrong((*path, key), reason)


def check_resolved(path: KeyPath, sweep: Sweep, optimizer: ResolvedOptimizer) -> None:
    """Raise `Wrong` for a wrong number in an optimizer that was read from a file: in its rates or its weight decay."""
    POSITIVE.check((*path, "lr_scale"), optimizer.lr_scale)
    POSITIVE.check((*path, "lr"), optimizer.lr)
    Search(sweep, optimizer.lr_scale).check_rates((*path, "lr_scale"))
    for options in (optimizer.options, *optimizer.arenas.values()):
        weight_decay = options.get("weight_decay")
        if weight_decay is not None:
            build(float, weight_decay, (*path, "weight_decay"))
