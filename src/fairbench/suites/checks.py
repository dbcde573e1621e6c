"""Checks of a suite beyond its types: what its keys must have together, and the options of data, shocks and models."""

import re
from collections.abc import Mapping
from typing import Any

from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.coercion import KeyPath, Wrong, build, build_keys
from fairbench.data.datasets.registry import DATASETS, READING
from fairbench.optimizers.resolve import rates_of
from fairbench.optimizers.spec import WARMUP, OptimizerPlan, ResolvedOptimizer
from fairbench.optimizers.treatments import SCHEDULES
from fairbench.suites.key_checks import POSITIVE, check_known, check_references, check_rising, check_values
from fairbench.suites.schema import ArenaPlan, Suite, SuiteFile
from fairbench.suites.search import Search, check_sweep
from fairbench.suites.stages import Sweep

NAME = r"[\w.\-]*\w"
"""The form of a suite's name."""


def check_file(file: SuiteFile) -> None:
    """Raise `Wrong` for the first error in a file that makes further arenas; otherwise its suite is checked anyway."""
    if not (file.ladder or file.horizons or file.schedules or file.shock):
        return
    check_values(file)
    for name, arena in file.arenas.items():
        _check_arena(file, name, arena)
    for name, ladder in file.ladder.items():
        check_known(("ladder", name), "arena", [name], file.arenas)
        for key, values in vars(ladder).items():
            check_rising(("ladder", name, key), values)
    check_rising(("horizons",), file.horizons or [1.0])
    check_known(("schedules",), "schedule", file.schedules, SCHEDULES)
    if len(set(file.schedules)) < len(file.schedules):
        raise Wrong(("schedules",), f"must name each schedule once, got {file.schedules}")
    if file.ladder and file.horizons:
        raise Wrong(("horizons",), "a suite with a ladder has them there, as in [ladder.gpt]; leave them out here")
    for name, shock in file.shock.items():
        check_known(("shock", name, "kind"), "shock for this arena", [str(shock.get("kind"))], SHOCKS)
        _check_shock(("shock", name), shock)


def check_suite(suite: Suite) -> None:
    """Raise `Wrong` for the first error in a suite."""
    if not re.fullmatch(NAME, suite.name):
        raise Wrong(("name",), f"must be made of letters, digits, '_', '-' and '.', got {suite.name!r}")
    if not suite.arenas:
        raise Wrong(("arenas",), "needs at least one arena")
    check_values(suite)
    check_references(suite)
    check_sweep(suite.sweep)
    for name, arena in suite.arenas.items():
        _check_arena(suite, name, arena)
    _check_lengths(suite)
    _check_seeds(suite)
    for name, optimizer in suite.optimizers.items():
        _check_optimizer(suite, name, optimizer)


def _check_arena(suite: Suite, name: str, arena: ArenaPlan) -> None:
    path, facts = ("arenas", name), suite.facts(name)
    if arena.cell and arena.cell.size and facts.metrics[arena.metric] == "max":
        reason = f"must be one whose minimum is best on a ladder, as a loss, got {arena.metric!r}"
        raise Wrong((*path, "metric"), reason)
    if not arena.batch_size and facts.kind != "program":
        raise Wrong((*path, "batch_size"), "must be at least 1, got 0")
    if arena.tuned_on:
        tuning = suite.arenas[arena.tuned_on]
        if tuning.tuned_on or (suite.task(arena.tuned_on), tuning.metric) != (suite.task(name), arena.metric):
            reason = f"must name an arena of the same task and metric with a sweep, got {arena.tuned_on!r}"
            raise Wrong((*path, "tuned_on"), reason)
    if "source" in arena.data:
        of_source = DATASETS[arena.data["source"]].suite_options
        _check_options((*path, "data"), arena.data, {"source": str, **READING[facts.kind], **of_source})
    if facts.model_options is not None:
        _check_options((*path, "model"), arena.model, facts.model_options)
    if arena.shock:
        _check_shock((*path, "shock"), arena.shock)


def _check_shock(path: KeyPath, shock: Mapping[str, Any]) -> None:
    options = SHOCKS[shock["kind"]].options
    _check_options(path, shock, {"kind": str, "at": list[float], "steps": 1, **options})
    if not shock["at"] or not all(0 <= x < 1 for x in shock["at"]):
        raise Wrong((*path, "at"), f"must be fractions of the training in [0, 1), got {shock['at']}")
    for key in ("steps", *options):
        POSITIVE.check((*path, key), shock.get(key))


def _check_options(path: KeyPath, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Check names, types and signs of options; `known` has the type of a required option, otherwise its default."""
    needed = [key for key, kind in known.items() if not isinstance(kind, int | float | str | list)]
    types = {key: kind if key in needed else type(kind) for key, kind in known.items()}
    for key, value in build_keys(types, needed, options, path).items():
        numbers = [x for x in (value if isinstance(value, list) else [value]) if type(x) is int]
        least = 1 if known[key] is int else 0
        if numbers and min(numbers) < least:
            raise Wrong((*path, key), f"must be at least {least}, got {value!r}")


def _check_lengths(suite: Suite) -> None:
    shortest = min(min(arena.steps, arena.sweep_steps) for arena in suite.arenas.values())
    for path, values, most in (
        (("training", WARMUP), [suite.training.warmup_steps], shortest - 1),
        (("training", "log_every"), [suite.training.log_every], shortest),
        (("sweep", "extra", WARMUP), suite.sweep.extra.get(WARMUP, []), shortest - 1),
    ):
        if values and max(values) > most:
            reason = f"must be at most {most}, since the shortest trials have {shortest} steps; got {max(values)}"
            raise Wrong(path, reason)


def _check_seeds(suite: Suite) -> None:
    sweep, final = suite.sweep, suite.final
    for path, seeds in ((("sweep", "seeds"), sweep.seeds), (("final", "seeds"), final.seeds)):
        if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**63:
            raise Wrong(path, f"must be distinct whole numbers in [0, 2^63), got {seeds}")
    looks, most = final.looks, len(final.seeds)
    if looks and (len(looks) < 2 or looks[0] < 2 or looks[-1] != most or looks != sorted(set(looks))):
        need = f"must be two or more numbers of seeds that rise from at least 2 to {most}, as many as there are seeds"
        raise Wrong(("final", "looks"), f"{need}; got {looks}")
    if looks and looks[0] < final.halve_after:
        raise Wrong(("final", "halve_after"), f"must be at most {looks[0]}, the first look; got {final.halve_after}")


def _check_optimizer(suite: Suite, name: str, plan: OptimizerPlan) -> None:
    path = ("optimizers", name)
    factor = dict.fromkeys(arena.schedule for arena in suite.arenas.values() if arena.cell and arena.schedule)
    if plan.schedule is not None and factor:
        each = f"the suite trains every optimizer with each of its schedules ({', '.join(factor)})"
        raise Wrong((*path, "schedule"), f"does not go with that: {each}; leave one of the two out")
    if plan.lr is not None and plan.lr_scale is not None:
        raise Wrong((*path, "lr_scale"), "scales searched rates, but with lr none is searched; leave one out")
    lr_scale, lr = rates_of(name, plan)
    Search(suite.sweep, lr_scale).check_rates((*path, "lr_scale"))
    searched = ("lr",) if lr is not None else ("lr", *suite.sweep.extra)
    tables: list[tuple[KeyPath, Mapping[str, Any]]] = [((*path, "options"), plan.options)]
    tables += [((*path, "arenas", arena), options) for arena, options in plan.arenas.items()]
    for table, key in ((table, key) for table, options in tables for key in searched if key in options):
        remedy = "leave it out" if lr is None else f"of {name} none is searched: give lr outside options"
        fixed = f", or fix the rate: optimizers.{name}.lr" if key == "lr" and lr is None else ""
        raise Wrong((*table, key), f"is selected by the sweep; {remedy}{fixed}")


def check_resolved(path: KeyPath, sweep: Sweep, optimizer: ResolvedOptimizer) -> None:
    """Raise `Wrong` unless an optimizer that was resolved elsewhere has rates, and numbers for its weight decay."""
    POSITIVE.check((*path, "lr_scale"), optimizer.lr_scale)
    POSITIVE.check((*path, "lr"), optimizer.lr)
    Search(sweep, optimizer.lr_scale).check_rates((*path, "lr_scale"))
    for options in (optimizer.options, *optimizer.arenas.values()):
        if options.get("weight_decay") is not None:
            build(float, options["weight_decay"], (*path, "weight_decay"))
