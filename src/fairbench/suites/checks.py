"""Checks of a suite beyond its types: what its keys must have together, and the options of data, shocks and models."""

import re
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

from fairbench.arenas.base import ArenaFacts
from fairbench.arenas.registry import ARENAS
from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.coercion import KeyPath, Wrong, build
from fairbench.data.datasets.registry import DATASETS, READING
from fairbench.optimizers.resolve import SCHEDULES, known_optimizers, rates_of
from fairbench.optimizers.spec import WARMUP, OptimizerPlan, ResolvedOptimizer
from fairbench.suites.key_checks import POSITIVE, check_known, check_name, check_rising, check_values
from fairbench.suites.schema import ALL, ALL_ARENAS, ArenaPlan, Suite, SuiteFile
from fairbench.suites.search import Search, canonical
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
        _check_shock(("shock", name), shock, [*SHOCKS])


def check_suite(suite: Suite) -> None:
    """Raise `Wrong` for the first error in a suite."""
    if not re.fullmatch(NAME, suite.name):
        raise Wrong(("name",), f"must be made of letters, digits, '_', '-' and '.', got {suite.name!r}")
    if not suite.arenas:
        raise Wrong(("arenas",), "needs at least one arena")
    check_values(suite)
    for name, arena in suite.arenas.items():
        _check_arena(suite, name, arena)
    _check_sweep(suite.sweep)
    _check_lengths(suite)
    _check_seeds(suite)
    for name, optimizer in suite.optimizers.items():
        _check_optimizer(suite, name, optimizer)
    check_known(("reference",), "optimizer", [suite.reference], suite.optimizers)
    _check_compare(suite)
    check_known(("controls",), "optimizer", suite.controls, suite.optimizers)
    if suite.controls and len(set(suite.controls)) < max(len(suite.controls), 2):
        raise Wrong(("controls",), f"must have two or more optimizers, each once, got {suite.controls}")


def _check_arena(suite: Suite, name: str, arena: ArenaPlan) -> None:
    path = ("arenas", name)
    if not re.fullmatch(r"[\w.\- ]+", name):  # as a command can have it
        raise Wrong(path, f"must be made of letters, digits, spaces, '_', '-' and '.', got {name!r}")
    if name == ALL_ARENAS:
        raise Wrong(path, f"must not be {ALL_ARENAS!r}, which stands for all of them in tables; rename it")
    check_name(path, name)
    if arena.facts is None:
        check_known((*path, "task") if arena.task else path, "arena", [suite.task(name)], ARENAS)
    facts = suite.facts(name)
    for metric in facts.metrics:
        check_name((*path, "metric"), metric)
    check_known((*path, "metric"), "metric", [arena.metric], facts.metrics)
    if arena.cell and arena.cell.size and facts.metrics[arena.metric] == "max":
        reason = f"must be one whose minimum is best on a ladder, as a loss, got {arena.metric!r}"
        raise Wrong((*path, "metric"), reason)
    check_known((*path, "schedule"), "schedule", filter(None, [arena.schedule]), SCHEDULES)
    if not arena.batch_size and facts.kind != "program":
        raise Wrong((*path, "batch_size"), "must be at least 1, got 0")
    if "source" in arena.data or arena.facts is None:
        _check_source((*path, "data"), arena.data, facts)
    if facts.model_options is not None:
        _check_options((*path, "model"), arena.model, facts.model_options)
    if arena.tuned_on:
        _check_tuned_on(suite, name, arena)
    if arena.shock:
        _check_shock((*path, "shock"), arena.shock, [key for key, x in SHOCKS.items() if facts.kind in x.kinds])


def _check_source(path: KeyPath, data: Mapping[str, Any], facts: ArenaFacts) -> None:
    fitting = {key: x for key, x in DATASETS.items() if x.kind == facts.kind and x.labelled >= facts.labelled}
    source = str(data.get("source"))
    remark = "; the arena's facts have no kind = 'images' or 'text'" if facts.kind == "own" else ""
    check_known((*path, "source"), "source for this arena", [source], fitting, remark)
    _check_options(path, data, {"source": str, **READING[facts.kind], **fitting[source].suite_options})


def _check_tuned_on(suite: Suite, name: str, arena: ArenaPlan) -> None:
    path = ("arenas", name, "tuned_on")
    check_known(path, "arena", [arena.tuned_on], suite.arenas)
    tuning = suite.arenas[arena.tuned_on]
    if tuning.tuned_on or (suite.task(arena.tuned_on), tuning.metric) != (suite.task(name), arena.metric):
        raise Wrong(path, f"must name an arena of the same task and metric with a sweep, got {arena.tuned_on!r}")


def _check_shock(path: KeyPath, shock: Mapping[str, Any], fitting: Sequence[str]) -> None:
    kind = str(shock.get("kind"))
    check_known((*path, "kind"), "shock for this arena", [kind], fitting)
    options = SHOCKS[kind].options
    _check_options(path, shock, {"kind": str, "at": list[float], "steps": 1, **options})
    if not shock["at"] or not all(0 <= x < 1 for x in shock["at"]):
        raise Wrong((*path, "at"), f"must be fractions of the training in [0, 1), got {shock['at']}")
    for key in ("steps", *options):
        POSITIVE.check((*path, key), shock.get(key))


def _check_options(path: KeyPath, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Check names, types and signs of options; `known` has the type of a required option, otherwise its default."""
    for key in options:
        check_known((*path, key), "key", [key], known)
    for key, kind in known.items():
        needed = not isinstance(kind, int | float | str | list)
        if needed and key not in options:
            raise Wrong((*path, key), "is missing")
        if key in options:
            value = build(kind if needed else type(kind), options[key], (*path, key))
            numbers = [x for x in (value if isinstance(value, list) else [value]) if type(x) is int]
            least = 1 if kind is int else 0
            if numbers and min(numbers) < least:
                raise Wrong((*path, key), f"must be at least {least}, got {value!r}")


def _check_sweep(sweep: Sweep) -> None:
    if sweep.lr_max <= sweep.lr_min:
        raise Wrong(("sweep", "lr_max"), f"must be above lr_min = {sweep.lr_min}, got {sweep.lr_max}")
    if 0 < sweep.budget < sweep.points:
        raise Wrong(("sweep", "budget"), f"must be at least points = {sweep.points}, got {sweep.budget}")
    for name, values in sweep.extra.items():
        path = ("sweep", "extra", name)
        if name == "lr":
            raise Wrong(path, "is always searched, from lr_min to lr_max; leave it out")
        least = 0.0 if name in ("weight_decay", WARMUP) else -inf
        if name == WARMUP and not all(type(value) is int for value in values):
            raise Wrong(path, f"must be whole numbers of steps, got {values}")
        for value in values:
            for each in value if isinstance(value, list) else [value]:
                if not isinstance(each, bool | int | float | str):
                    raise Wrong(path, f"must be numbers, strings, true or false, or lists of them, got {value!r}")
                if not isinstance(each, str) and not (isfinite(each) and each >= least):
                    raise Wrong(path, f"must be finite{' and not negative' * (least == 0)}, got {value!r}")
        if len(values) < 2 or len(set(canonical(values))) < len(values):
            raise Wrong(path, f"must be two or more values, each once, got {values}")
    _check_rates(("sweep", "points"), sweep, 1.0)


def _check_rates(path: KeyPath, sweep: Sweep, scale: float) -> None:
    """Check that all rates that may be tried at a scale are distinct, positive and finite."""
    search, beyond = Search(sweep, scale), sweep.points + 2 * max(sweep.budget - sweep.points, 0)
    try:
        rates = [search.rate(index) for index in range(-beyond, sweep.points + beyond)]
    except OverflowError:
        raise Wrong(path, f"gives rates that are not finite: up to {beyond} may be tried beyond each end") from None
    if not (rates[0] > 0 and rates[-1] < inf and len(set(rates)) == len(rates)):
        raise Wrong(path, f"gives rates that are not distinct, positive and finite: {rates}")


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


def _check_compare(suite: Suite) -> None:
    for key, names in vars(suite.compare).items():
        path = ("compare", key)
        if names != [ALL] or key == "optimizers":
            check_known(path, "optimizer", names, suite.optimizers)
        if len(set(names)) < len(names):
            raise Wrong(path, f"must name each optimizer once, got {names}")
    if len(suite.optimizers) > 1 and not suite.pairs:
        raise Wrong(("compare",), "has no pair of two; name an optimizer and another one as its baseline")


def _check_optimizer(suite: Suite, name: str, plan: OptimizerPlan) -> None:
    path = ("optimizers", name)
    check_name(path, name)
    if name == ALL:
        raise Wrong(path, f"must not be {ALL!r}, which stands for every optimizer in compare.baselines; rename it")
    if not plan.factory:
        check_known(path, "optimizer", [name], known_optimizers(), '; a custom one needs factory = "module:Class"')
    for other in plan.arenas:
        check_known((*path, "arenas", other), "arena", [other], suite.arenas)
    factor = dict.fromkeys(arena.schedule for arena in suite.arenas.values() if arena.cell and arena.schedule)
    if plan.schedule is not None and factor:
        each = f"the suite trains every optimizer with each of its schedules ({', '.join(factor)})"
        raise Wrong((*path, "schedule"), f"does not go with that: {each}; leave one of the two out")
    if plan.lr is not None and plan.lr_scale is not None:
        raise Wrong((*path, "lr_scale"), "scales searched rates, but with lr none is searched; leave one out")
    lr_scale, lr = rates_of(name, plan)
    _check_rates((*path, "lr_scale"), suite.sweep, lr_scale)
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
    _check_rates((*path, "lr_scale"), sweep, optimizer.lr_scale)
    for options in (optimizer.options, *optimizer.arenas.values()):
        if options.get("weight_decay") is not None:
            build(float, options["weight_decay"], (*path, "weight_decay"))
