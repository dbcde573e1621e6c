"""Checks of a suite beyond its types: names, ranges and combinations."""

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from fairbench.arenas.base import ArenaFacts
from fairbench.arenas.registry import ARENAS
from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.coercion import KeyPath, Wrong, build
from fairbench.common.errors import unknown
from fairbench.data.datasets.info import READING
from fairbench.data.datasets.registry import DATASETS
from fairbench.optimizers.resolve import NEEDS, known_optimizers, rates_of
from fairbench.optimizers.spec import WARMUP, OptimizerPlan, ResolvedOptimizer
from fairbench.suites.names import check_arena_name, check_name
from fairbench.suites.schema import COMPARED, RULES, SPENDING, ArenaPlan, Suite, Sweep
from fairbench.suites.search import SEARCHES, Setting, canonical, search_for
from fairbench.suites.training import check_training

MOST = 10**9
"""Upper bound of steps and examples; anything larger is a typo."""
REHEARSED = 3
"""Steps that the rehearsal takes with every optimizer; a final trial must have as many."""
NAME = r"[\w.\-]*\w"
"""The form of a suite's name."""


def check_suite(suite: Suite) -> None:
    """Raise `Wrong` for the first error in a suite."""
    if not re.fullmatch(NAME, suite.name):
        raise Wrong(("name",), f"must be made of letters, digits, '_', '-' and '.', got {suite.name!r}")
    if not suite.arenas:
        raise Wrong(("arenas",), "needs at least one arena")
    for name, arena in suite.arenas.items():
        _check_arena(suite, name, arena)
    _check_stages(suite)
    check_training(suite)
    for name, optimizer in suite.optimizers.items():
        check_name(("optimizers", name), name)
        if not optimizer.factory and name not in known_optimizers():
            reason = f'{unknown("optimizer", name, known_optimizers())}; a custom one needs factory = "module:Class"'
            raise Wrong(("optimizers", name), reason)
        _check_rates(suite, name, optimizer)
        for need in optimizer.needs or ():
            if need not in NEEDS:
                raise Wrong(("optimizers", name, "needs"), unknown("need of the training loop", need, NEEDS))
        for other in optimizer.arenas.keys() - suite.arenas.keys():
            raise Wrong(("optimizers", name, "arenas", other), unknown("arena", other, suite.arenas))
    if suite.reference not in suite.optimizers:
        raise Wrong(("reference",), unknown("optimizer", suite.reference, suite.optimizers))
    if suite.compare not in COMPARED:
        raise Wrong(("compare",), unknown("comparison", suite.compare, COMPARED))
    for rung in suite.controls:
        if rung not in suite.optimizers:
            raise Wrong(("controls",), unknown("optimizer", rung, suite.optimizers))
    if suite.controls and len(set(suite.controls)) < max(len(suite.controls), 2):
        raise Wrong(("controls",), f"must have two or more optimizers, each once, got {suite.controls}")


def _check_arena(suite: Suite, name: str, arena: ArenaPlan) -> None:
    path = ("arenas", name)
    check_arena_name(path, name)
    if arena.facts is None and suite.task(name) not in ARENAS:
        raise Wrong((*path, "task") if arena.task else path, unknown("arena", suite.task(name), ARENAS))
    facts = suite.facts(name)
    for metric in facts.metrics:
        check_name((*path, "metric"), metric)
    if arena.metric not in facts.metrics:
        raise Wrong((*path, "metric"), unknown("metric", arena.metric, facts.metrics))
    if arena.cell and arena.cell.size and facts.metrics[arena.metric] == "max":
        raise Wrong(
            (*path, "metric"), f"must be one whose minimum is best on a ladder, as a loss, got {arena.metric!r}"
        )
    for key, least in {"sweep_steps": 1, "steps": REHEARSED, "batch_size": 1}.items():
        if not least <= getattr(arena, key) <= MOST:
            rehearsal = f" ({REHEARSED} are taken before any trial)" if key == "steps" else ""
            raise Wrong((*path, key), f"must lie in [{least}, {MOST}]{rehearsal}, got {getattr(arena, key)}")
    check_positive((*path, "margin"), arena.margin)
    if "source" in arena.data or arena.facts is None:
        _check_source((*path, "data"), arena.data, facts)
    if facts.model_options is not None:
        _check_options((*path, "model"), arena.model, facts.model_options)
    _check_tuned_on(suite, name, arena)
    if arena.shock:
        _check_shock((*path, "shock"), arena.shock, facts.kind)


def _check_source(path: KeyPath, data: Mapping[str, Any], facts: ArenaFacts) -> None:
    fitting = {key: x for key, x in DATASETS.items() if x.kind == facts.kind and x.labelled >= facts.labelled}
    if (source := data.get("source")) not in fitting:
        remark = "; the arena's facts have no kind = 'images' or 'text'" if facts.kind == "own" else ""
        raise Wrong((*path, "source"), f"{unknown('source for this arena', str(source), fitting)}{remark}")
    _check_options(path, data, {"source": str, **READING[facts.kind], **fitting[str(source)].suite_options})


def _check_tuned_on(suite: Suite, name: str, arena: ArenaPlan) -> None:
    if not arena.tuned_on:
        return
    path = ("arenas", name, "tuned_on")
    if arena.tuned_on not in suite.arenas:
        raise Wrong(path, unknown("arena", arena.tuned_on, suite.arenas))
    tuning = suite.arenas[arena.tuned_on]
    if tuning.tuned_on or (suite.task(arena.tuned_on), tuning.metric) != (suite.task(name), arena.metric):
        raise Wrong(path, f"must name an arena of the same task and metric with a sweep, got {arena.tuned_on!r}")


def _check_shock(path: KeyPath, shock: Mapping[str, Any], kind: str) -> None:
    fitting = {key: x for key, x in SHOCKS.items() if kind in x.kinds}
    if (given := shock.get("kind")) not in fitting:
        raise Wrong((*path, "kind"), unknown("shock for this arena", str(given), fitting))
    _check_options(path, shock, {"kind": str, "at": list[float], "steps": 1, **fitting[str(given)].options})
    if not shock["at"] or not all(0 <= x < 1 for x in shock["at"]):
        raise Wrong((*path, "at"), f"must be fractions of the training in [0, 1), got {shock['at']}")
    for key in ("steps", *fitting[str(given)].options):
        if key in shock and not 0 < shock[key] < float("inf"):
            raise Wrong((*path, key), f"must be positive and finite, got {shock[key]}")


def _check_stages(suite: Suite) -> None:
    check_positive(("alpha",), suite.alpha)
    check_positive(("trend_margin",), suite.trend_margin)
    if suite.alpha >= 1:
        raise Wrong(("alpha",), f"must be below 1, got {suite.alpha}")
    for key in ("trial_timeout", "checkpoint_every"):
        if not 0 <= (seconds := getattr(suite, key)) < float("inf"):
            raise Wrong((key,), f"must be a number of seconds, or 0, got {seconds}")
    for stage, key, least, most in (
        ("sweep", "evaluations", 1, 10_000),
        ("final", "evaluations", 1, 10_000),
        ("training", "warmup_steps", 0, 10**9),
        ("training", "log_every", 1, 10**9),
        ("training", "clip_norm", 0, 10**9),
        ("training", "evaluation_batch_size", 1, MOST),
    ):
        value = getattr(getattr(suite, stage), key)
        if not least <= value <= most:
            raise Wrong((stage, key), f"must lie in [{least}, {most}], got {value}")
    check_sweep(suite.sweep)
    shortest = min(min(arena.steps, arena.sweep_steps) for arena in suite.arenas.values())
    for path, value, most in (
        (("training", WARMUP), suite.training.warmup_steps, shortest - 1),
        (("training", "log_every"), suite.training.log_every, shortest),
        *((("sweep", "extra", WARMUP), value, shortest - 1) for value in suite.sweep.extra.get(WARMUP, [])),
    ):
        if value > most:
            raise Wrong(path, f"must be at most {most}, since the shortest trials have {shortest} steps; got {value}")
    _check_seeds(("sweep", "seeds"), suite.sweep.seeds)
    _check_seeds(("final", "seeds"), suite.final.seeds)
    _check_looks(suite)
    for rule in suite.breaks:
        if rule not in RULES:
            raise Wrong(("breaks",), unknown("rule", rule, RULES))
    if suite.sweep.repeated and "seeds" in suite.breaks:
        raise Wrong(("sweep", "repeated"), "must be false in a suite that breaks the rule on seeds")
    if suite.sweep.repeated and (len(suite.sweep.seeds) % len(suite.final.seeds) or not suite.sweep.seeds):
        counts = f"got {len(suite.sweep.seeds)} for {len(suite.final.seeds)}"
        reason = f"must be as many as final.seeds, or a multiple, since each has a search (sweep.repeated); {counts}"
        raise Wrong(("sweep", "seeds"), reason)
    if "seeds" not in suite.breaks and (shared := sorted(set(suite.sweep.seeds) & set(suite.final.seeds))):
        raise Wrong(("final", "seeds"), f"must not be those of the sweep, both have {shared}")


def _check_rates(suite: Suite, name: str, optimizer: OptimizerPlan) -> None:
    """Check the scale or fixed rate of an optimizer, and that it sets nothing that the sweep selects."""
    path = ("optimizers", name)
    if optimizer.lr is not None and optimizer.lr_scale is not None:
        raise Wrong((*path, "lr_scale"), "scales searched rates, but with lr none is searched; leave one out")
    for key in ("lr", "lr_scale"):
        if (value := getattr(optimizer, key)) is not None:
            check_positive((*path, key), value)
    lr_scale, lr = rates_of(name, optimizer)
    check_settings((*path, "lr_scale"), suite.sweep, lr_scale)
    searched = ("lr",) if lr is not None else ("lr", *suite.sweep.extra)
    tables: list[tuple[KeyPath, Mapping[str, Any]]] = [((*path, "options"), optimizer.options)]
    tables += [((*path, "arenas", arena), options) for arena, options in optimizer.arenas.items()]
    for table, options in tables:
        for key in searched:
            if key in options:
                remedy = "leave it out" if lr is None else f"of {name} none is searched: give lr outside options"
                fixed = f", or fix the rate: optimizers.{name}.lr" if key == "lr" and lr is None else ""
                raise Wrong((*table, key), f"is selected by the sweep; {remedy}{fixed}")


def _check_seeds(path: KeyPath, seeds: Sequence[int]) -> None:
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**63:
        raise Wrong(path, f"must be distinct whole numbers in [0, 2^63), got {list(seeds)}")


def _check_looks(suite: Suite) -> None:
    final = suite.final
    looks, most = final.looks, len(final.seeds)
    if looks and (len(looks) < 2 or looks[0] < 2 or looks[-1] != most or looks != sorted(set(looks))):
        need = f"must be two or more numbers of seeds that rise from at least 2 to {most}, as many as there are seeds"
        raise Wrong(("final", "looks"), f"{need}; got {looks}")
    if looks and suite.sweep.repeated:
        raise Wrong(("final", "looks"), "does not go with sweep.repeated, which searches for all seeds; leave one out")
    if final.spending not in SPENDING:
        raise Wrong(("final", "spending"), unknown("spending", final.spending, SPENDING))


def _check_options(path: KeyPath, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Check names, types and signs of options; `known` has the type of a required option, otherwise its default."""
    for key in options:
        if key not in known:
            raise Wrong((*path, key), unknown("key", key, known))
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


KEYS = {
    "grid": {"points": (2, 100), "budget": (0, 1000)},
    "sobol": {"budget": (2, 1000), "search_seed": (0, 2**63 - 1)},
    "coordinate": {"points": (2, 100), "budget": (2, 1000)},
}
"""The keys of each search, with their least and largest value; those with a positive least value are required."""


def check_sweep(sweep: Sweep) -> None:
    """Raise `Wrong` for the first error in a sweep; its seeds are checked with the suite."""
    check_positive(("sweep", "lr_min"), sweep.lr_min)
    check_positive(("sweep", "lr_max"), sweep.lr_max)
    if sweep.lr_max <= sweep.lr_min:
        raise Wrong(("sweep", "lr_max"), f"must be above lr_min = {sweep.lr_min}, got {sweep.lr_max}")
    if sweep.search not in SEARCHES:
        raise Wrong(("sweep", "search"), unknown("search", sweep.search, SEARCHES))
    for key in ("points", "budget", "search_seed"):
        value, path, bounds = getattr(sweep, key), ("sweep", key), KEYS[sweep.search].get(key)
        if bounds is None and value:
            raise Wrong(path, f"is not a key of a {sweep.search} search, which has {', '.join(KEYS[sweep.search])}")
        if bounds and value == 0 < bounds[0]:
            raise Wrong(path, f"is missing: a {sweep.search} search needs it")
        if bounds and not bounds[0] <= value <= bounds[1]:
            raise Wrong(path, f"must lie in [{bounds[0]}, {bounds[1]}], got {value}")
    if sweep.budget and sweep.budget < sweep.points:
        raise Wrong(("sweep", "budget"), f"must be at least points = {sweep.points}, got {sweep.budget}")
    if not 0 <= sweep.confirm <= 10:
        raise Wrong(("sweep", "confirm"), f"must lie in [0, 10], got {sweep.confirm}")
    _check_extra(sweep)
    check_settings(("sweep", next(iter(KEYS[sweep.search]))), sweep, 1.0)


def check_settings(path: KeyPath, sweep: Sweep, scale: float) -> None:
    """Check that all settings that may be tried at a scale are distinct, and their rates positive and finite."""
    search = search_for(sweep, scale, None)
    beyond = max(sweep.budget - sweep.points, 0)
    beyond += (sweep.points + beyond) * (sweep.confirm > 0)
    try:
        span = range(-beyond, sweep.points + beyond)
        tried = [Setting(search.rate(index)) for index in span] if sweep.points else search.first()
    except OverflowError:
        raise Wrong(path, f"gives rates that are not finite: up to {beyond} may be tried beyond each end") from None
    rates = [setting.lr for setting in tried]
    if not (rates[0] > 0 and rates[-1] < float("inf") and len(set(tried)) == len(tried)):
        raise Wrong(path, f"gives rates that are not distinct, positive and finite: {rates}")


def check_resolved(path: KeyPath, sweep: Sweep, optimizer: ResolvedOptimizer) -> None:
    """Raise `Wrong` unless an optimizer that was resolved elsewhere has rates, and numbers for its weight decay."""
    check_positive((*path, "lr_scale"), optimizer.lr_scale)
    if optimizer.lr is not None:
        check_positive((*path, "lr"), optimizer.lr)
    check_settings((*path, "lr_scale"), sweep, optimizer.lr_scale)
    for options in (optimizer.options, *optimizer.arenas.values()):
        if options.get("weight_decay") is not None:
            build(float, options["weight_decay"], (*path, "weight_decay"))


def check_positive(path: KeyPath, value: float) -> None:
    """Raise `Wrong` unless a number is positive and finite."""
    if not 0 < value < float("inf"):
        raise Wrong(path, f"must be positive and finite, got {value}")


def _check_extra(sweep: Sweep) -> None:
    for name, values in sweep.extra.items():
        path = ("sweep", "extra", name)
        if name == "lr":
            raise Wrong(path, "is always searched, from lr_min to lr_max; leave it out")
        least = 0.0 if name in ("weight_decay", WARMUP) else -float("inf")
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
