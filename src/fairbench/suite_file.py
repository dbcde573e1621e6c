"""Suites from TOML, checked before anything starts: every error names the key, its value and the line."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from importlib import resources
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from fairbench.arenas import ARENAS
from fairbench.data.facts import READING, SOURCES
from fairbench.errors import UsageError, unknown
from fairbench.optimizers import OPTIMIZERS
from fairbench.shocks import SHOCKS
from fairbench.suite import COMPARED, RULES, ArenaPlan, Suite

if sys.version_info >= (3, 11):
    from importlib.resources.abc import Traversable

    import tomllib
else:
    from importlib.abc import Traversable

    import tomli as tomllib

MOST = 10**9
"""More steps, or examples in a batch, nobody means."""
PRECISIONS = ("float32", "bfloat16")
KeyPath = tuple[str, ...]
"""Where a key stands: ("arenas", "gpt", "steps")."""


def _suites() -> Traversable:
    return resources.files("fairbench") / "suites"


def suite_names() -> list[str]:
    """Names of the suites that come with fairbench."""
    return sorted(file.name.removesuffix(".toml") for file in _suites().iterdir() if file.name.endswith(".toml"))


def load_suite(name_or_path: str) -> Suite:
    """Read a suite by its name, or from a file that ends in .toml.

    Raises:
        UsageError: there is no such suite or file, or something in it is wrong.
    """
    if name_or_path.endswith(".toml"):
        file: Traversable = Path(name_or_path)
        if not file.is_file():
            raise UsageError(f"no suite file {name_or_path!r}")
        if file.name.removesuffix(".toml") in suite_names():
            raise UsageError(f"{name_or_path}: a suite of that name comes with fairbench; rename the file")
    elif name_or_path in suite_names():
        file = _suites() / f"{name_or_path}.toml"
    else:
        raise unknown("suite", name_or_path, suite_names())
    try:
        text = file.read_bytes().decode("utf-8-sig")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file.name}: {error}") from error
    name = file.name.removesuffix(".toml")
    if content.get("name", name) != name:
        given = f"name = {content['name']!r}"
        raise UsageError(f"{file.name}: {given}: a suite is named by its file, {name!r}; leave that line out")
    return parse_suite(_with_twins({**content, "name": name}, file.name), file.name, text)


def _with_twins(content: dict[str, Any], where: str) -> dict[str, Any]:
    """The content of a suite file without its table `shock`: beside each arena a twin for each shock that fits it.

    A twin is the arena with that shock, and is tuned where the arena is.

    Raises:
        UsageError: the table is none of tables.
    """
    shocks, arenas = content.pop("shock", {}), content.get("arenas", {})
    if not isinstance(shocks, Mapping) or not all(isinstance(x, Mapping) for x in (*shocks.values(), *arenas.values())):
        raise UsageError(
            f"{where}: shock: must hold a table for each shock, as [shock.loss], and arenas one for each arena"
        )
    for name, arena in [*arenas.items()] if shocks else []:
        task = arena.get("task", name)
        for shock, options in shocks.items():
            facts = SHOCKS.get(str(options.get("kind")))
            if facts is None or task not in ARENAS or ARENAS[task].kind in facts.kinds:
                twin = {"task": task, "tuned_on": arena.get("tuned_on", name), "shock": options}
                arenas = {**arenas, f"{name}-{shock}": {**arena, **twin}}
    return {**content, "arenas": arenas}


def parse_suite(content: Mapping[str, Any], where: str, text: str = "") -> Suite:
    """Check the plain values of a suite and make them a `Suite`.

    Args:
        content: the suite, as TOML or `Suite.to_json` gives it.
        where: what errors call it.
        text: its TOML text, in which errors find the line.

    Raises:
        UsageError: a key is unknown or missing, or has a wrong value.
    """
    try:
        suite: Suite = _build(Suite, content, ())
        _check_meaning(suite)
    except _Wrong as wrong:
        line = f", line {number}" if (number := line_of(text, wrong.path)) else ""
        raise UsageError(f"{where}{line}: {'.'.join(wrong.path)}: {wrong.reason}") from None
    return suite


class _Wrong(Exception):
    """What is wrong with the key at `path`."""

    def __init__(self, path: KeyPath, reason: object) -> None:
        self.path, self.reason = path, reason


def line_of(text: str, path: KeyPath) -> int:
    """Line number of the key in the TOML text: of the key itself, else of the nearest table around it; 0 if none."""
    best, best_depth = 0, 0
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            table = tuple(part.strip(" \"'") for part in header[1].split("."))
            here = table
        elif key := re.match(r"\s*([\w\-\"'.]+)\s*=", line):
            here = (*table, *(part.strip("\"'") for part in key[1].split(".")))
        else:
            continue
        if path[: len(here)] == here and len(here) > best_depth:
            best, best_depth = number, len(here)
    return best


def _build(cls: type, value: Any, path: KeyPath) -> Any:
    """A value of the type that the dataclasses of `fairbench.suite` declare."""
    if is_dataclass(cls):
        if not isinstance(value, Mapping):
            raise _Wrong(path, f"must be a table, got {value!r}")
        hints, declared = get_type_hints(cls), {field.name: field for field in fields(cls)}
        for key in value:
            if key not in declared:
                raise _Wrong((*path, key), unknown("key", key, declared))
        for key, field in declared.items():
            if key not in value and field.default is MISSING and field.default_factory is MISSING:
                raise _Wrong((*path, key), "is missing")
        return cls(**{key: _build(hints[key], item, (*path, key)) for key, item in value.items()})
    if get_origin(cls) is dict:
        if not isinstance(value, Mapping):
            raise _Wrong(path, f"must be a table, got {value!r}")
        element = get_args(cls)[1]
        return {key: item if element is Any else _build(element, item, (*path, key)) for key, item in value.items()}
    if get_origin(cls) is list:
        element = get_args(cls)[0]
        if not isinstance(value, list):
            raise _Wrong(path, f"must be a list, got {value!r}")
        return [_build(element, item, path) for item in value]
    if NoneType in get_args(cls):
        return None if value is None else _build(get_args(cls)[0], value, path)
    if cls is float and type(value) is int:
        return float(value)
    if type(value) is not cls:
        raise _Wrong(path, f"must be {_NAMES[cls]}, got {value!r}")
    return value


_NAMES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


def _check_meaning(suite: Suite) -> None:
    """Check what the types cannot say."""
    if not re.fullmatch(r"[\w.\-]*\w", suite.name):
        raise _Wrong(("name",), f"must be made of letters, digits, '_', '-' and '.', got {suite.name!r}")
    if not suite.arenas:
        raise _Wrong(("arenas",), "needs at least one arena")
    _check_stages(suite)
    for name, arena in suite.arenas.items():
        _check_arena(suite, name, arena)
    for name, optimizer in suite.optimizers.items():
        if not name.isprintable() or not name.strip():
            raise _Wrong(("optimizers", name), f"must be made of characters that can be shown, got {name!r}")
        if not optimizer.factory and name not in OPTIMIZERS:
            reason = f'{unknown("optimizer", name, OPTIMIZERS)}; your own one needs factory = "module:Class"'
            raise _Wrong(("optimizers", name), reason)
        given = [("options", optimizer.options), *optimizer.arenas.items()]
        for table, options in given:
            for searched in ("lr", *["weight_decay"] * bool(suite.sweep.weight_decays)):
                if searched in options:
                    place = (table,) if table == "options" else ("arenas", table)
                    raise _Wrong(("optimizers", name, *place, searched), "is what the sweep selects; leave it out")
        if optimizer.clip_norm is not None and not 0 <= optimizer.clip_norm < float("inf"):
            reason = f"must be finite and not negative (0 is off), got {optimizer.clip_norm}"
            raise _Wrong(("optimizers", name, "clip_norm"), reason)
        for unmet in optimizer.arenas.keys() - suite.arenas.keys():
            raise _Wrong(("optimizers", name, "arenas", unmet), unknown("arena", unmet, suite.arenas))
    if suite.reference not in suite.optimizers:
        raise _Wrong(("reference",), unknown("optimizer", suite.reference, suite.optimizers))
    if suite.compare not in COMPARED:
        raise _Wrong(("compare",), unknown("way to compare", suite.compare, COMPARED))
    for rung in suite.ladder:
        if rung not in suite.optimizers:
            raise _Wrong(("ladder",), unknown("optimizer", rung, suite.optimizers))
    if suite.ladder and len(set(suite.ladder)) < max(len(suite.ladder), 2):
        raise _Wrong(("ladder",), f"must have two or more optimizers, each once, got {suite.ladder}")


def _check_arena(suite: Suite, name: str, arena: ArenaPlan) -> None:
    path = ("arenas", name)
    if not re.fullmatch(r"[\w.\-]+", name):
        raise _Wrong(path, f"must be made of letters, digits, '_', '-' and '.', got {name!r}")
    if suite.task(name) not in ARENAS:
        raise _Wrong((*path, "task") if arena.task else path, unknown("arena", suite.task(name), ARENAS))
    facts = suite.facts(name)
    if arena.metric not in facts.metrics:
        raise _Wrong((*path, "metric"), unknown("metric", arena.metric, facts.metrics))
    for key in ("sweep_steps", "steps", "batch_size"):
        if not 1 <= getattr(arena, key) <= MOST:
            raise _Wrong((*path, key), f"must lie in [1, {MOST}], got {getattr(arena, key)}")
    if not 0 < arena.margin < 1:
        raise _Wrong((*path, "margin"), f"must lie in (0, 1): a difference of 1 always matters; got {arena.margin}")
    if arena.target is not None:
        _check_positive((*path, "target"), arena.target)
    fitting = {key: x for key, x in SOURCES.items() if x.kind == facts.kind and x.labelled >= facts.labelled}
    if (source := arena.data.get("source")) not in fitting:
        raise _Wrong((*path, "data", "source"), unknown("source for this arena", str(source), fitting))
    options = {"source": str, **READING[facts.kind], **fitting[str(source)].options}
    _check_options((*path, "data"), arena.data, options)
    _check_options((*path, "model"), arena.model, facts.model_options)
    _check_tuned_on(suite, name, arena)
    if arena.shock:
        _check_shock((*path, "shock"), arena.shock, facts.kind)


def _check_tuned_on(suite: Suite, name: str, arena: ArenaPlan) -> None:
    if not arena.tuned_on:
        return
    path = ("arenas", name, "tuned_on")
    if arena.tuned_on not in suite.arenas:
        raise _Wrong(path, unknown("arena", arena.tuned_on, suite.arenas))
    tuning = suite.arenas[arena.tuned_on]
    if tuning.tuned_on or (suite.task(arena.tuned_on), tuning.metric) != (suite.task(name), arena.metric):
        raise _Wrong(path, f"must name an arena of the same task and metric with a sweep, got {arena.tuned_on!r}")


def _check_shock(path: KeyPath, shock: Mapping[str, Any], kind: str) -> None:
    fitting = {key: x for key, x in SHOCKS.items() if kind in x.kinds}
    if (given := shock.get("kind")) not in fitting:
        raise _Wrong((*path, "kind"), unknown("shock for this arena", str(given), fitting))
    _check_options(path, shock, {"kind": str, "at": list[float], "steps": 1, **fitting[str(given)].options})
    if not shock["at"] or not all(0 <= x < 1 for x in shock["at"]):
        raise _Wrong((*path, "at"), f"must be shares of the training in [0, 1), got {shock['at']}")
    for key in ("steps", *fitting[str(given)].options):
        if key in shock and not 0 < shock[key] < float("inf"):
            raise _Wrong((*path, key), f"must be positive and finite, got {shock[key]}")


def _check_stages(suite: Suite) -> None:
    _check_positive(("alpha",), suite.alpha)
    if suite.alpha >= 1:
        raise _Wrong(("alpha",), f"must be below 1, got {suite.alpha}")
    if not 0 <= suite.trial_timeout < float("inf"):
        raise _Wrong(("trial_timeout",), f"must be a number of seconds, or 0, got {suite.trial_timeout}")
    _check_positive(("sweep", "lr_min"), suite.sweep.lr_min)
    _check_positive(("sweep", "lr_max"), suite.sweep.lr_max)
    if suite.sweep.lr_max <= suite.sweep.lr_min:
        raise _Wrong(("sweep", "lr_max"), f"must be above lr_min = {suite.sweep.lr_min}, got {suite.sweep.lr_max}")
    for stage, key, least, most in (
        ("sweep", "points", 2, 100),
        ("sweep", "max_extensions", 0, 100),
        ("sweep", "evaluations", 1, 10_000),
        ("final", "evaluations", 1, 10_000),
        ("training", "warmup_steps", 0, 10**9),
        ("training", "log_every", 1, 10**9),
        ("training", "clip_norm", 0, 10**9),
        ("training", "evaluation_batch_size", 1, MOST),
    ):
        value = getattr(getattr(suite, stage), key)
        if not least <= value <= most:
            raise _Wrong((stage, key), f"must lie in [{least}, {most}], got {value}")
    shortest = min(min(arena.steps, arena.sweep_steps) for arena in suite.arenas.values())
    for key, most in (("warmup_steps", shortest - 1), ("log_every", shortest)):
        if (value := getattr(suite.training, key)) > most:
            reason = f"must be at most {most}, since the shortest trials have {shortest} steps; got {value}"
            raise _Wrong(("training", key), reason)
    sweep = suite.sweep
    rates = [sweep.rate(i) for i in range(-sweep.max_extensions, sweep.points + sweep.max_extensions)]
    if not (rates[0] > 0 and rates[-1] < float("inf") and rates == sorted(set(rates))):
        raise _Wrong(("sweep", "points"), f"gives rates that are not distinct, positive and finite: {rates}")
    _check_seeds(("sweep", "seeds"), suite.sweep.seeds)
    _check_seeds(("final", "seeds"), suite.final.seeds)
    for rule in suite.breaks:
        if rule not in RULES:
            raise _Wrong(("breaks",), unknown("rule", rule, RULES))
    if "seeds" not in suite.breaks and (shared := sorted(set(suite.sweep.seeds) & set(suite.final.seeds))):
        raise _Wrong(("final", "seeds"), f"must not be those of the sweep, both have {shared}")
    for decay in suite.sweep.weight_decays:
        if not 0 <= decay < float("inf"):
            raise _Wrong(("sweep", "weight_decays"), f"must be finite and not negative, got {decay}")
    if suite.training.precision not in PRECISIONS:
        raise _Wrong(("training", "precision"), unknown("precision", suite.training.precision, PRECISIONS))


def _check_positive(path: KeyPath, value: float) -> None:
    if not 0 < value < float("inf"):
        raise _Wrong(path, f"must be positive and finite, got {value}")


def _check_seeds(path: KeyPath, seeds: Sequence[int]) -> None:
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) >= 2**63:
        raise _Wrong(path, f"must be distinct whole numbers in [0, 2^63), got {list(seeds)}")


def _check_options(path: KeyPath, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Names, types and signs of data or model options; `known` has a type where one must be given, else the default."""
    for key in options:
        if key not in known:
            raise _Wrong((*path, key), unknown("key", key, known))
    for key, kind in known.items():
        needed = not _is_value(kind)
        if needed and key not in options:
            raise _Wrong((*path, key), "is missing")
        if key in options:
            value = _build(kind if needed else type(kind), options[key], (*path, key))
            numbers = [x for x in (value if isinstance(value, list) else [value]) if type(x) is int]
            least = 1 if kind is int else 0
            if numbers and min(numbers) < least:
                raise _Wrong((*path, key), f"must be at least {least}, got {value!r}")


def _is_value(kind: Any) -> bool:
    """Whether this is a default, and not the type of one."""
    return isinstance(kind, int | float | str | list)
