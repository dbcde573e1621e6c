"""The suite that a command line asks for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from fairbench.arenas.registry import ARENAS, known_arenas
from fairbench.common.errors import UsageError, unknown
from fairbench.common.imports import place_and_name
from fairbench.data.registry import READING, SOURCES
from fairbench.optimizers.resolve import known_optimizers
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.coercion import Wrong, build
from fairbench.suites.loader import load_suite, parse_suite
from fairbench.suites.schema import ArenaPlan, Suite, Sweep
from fairbench.suites.user_arenas import completed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


PlanT = TypeVar("PlanT")
DEFAULT_SUITE = "mini"
PAPER_SUITE = "paper"
"""The suite for a folder of data without a suite, as in the paper's own command."""

OWN_DATA: dict[str, dict[str, int]] = {"images": {"size": 32}, "text": {}}
"""How a user's folder is prepared that the command line names: so small that a study of it takes minutes."""


def chosen_suite(options: argparse.Namespace) -> Suite:
    """The suite that the options ask for: narrowed to what they name, with what they add to it."""
    suite = load_suite(_name(options))
    if options.compile:
        suite = replace(suite, training=replace(suite.training, compile=True))
    if options.lr_grid:
        suite = replace(suite, sweep=_with_grid(suite.sweep, options.lr_grid))
    if options.arenas is not None:
        arenas = named_arenas(_chosen_words("--arenas", options.arenas), suite)
        optimizers = {name: _within(plan, arenas) for name, plan in suite.optimizers.items()}
        suite = replace(suite, arenas=arenas, optimizers=optimizers)
    suite = with_own_data(suite, {"images": options.images, "text": options.text})
    if options.optimizers is not None:
        named = _chosen_words("--optimizers", options.optimizers)
        suite = replace(suite, optimizers=named_optimizers(named, suite.optimizers))
        if not set(suite.ladder) <= suite.optimizers.keys():  # a rung less, and the next would be two causes
            suite = replace(suite, ladder=[])
    added = named_optimizers([*suite.optimizers, *options.optimizer], suite.optimizers)
    suite = replace(suite, optimizers=with_settings(added, options.set))
    reference = options.reference or suite.reference
    if reference not in suite.optimizers:
        choices = ", ".join(suite.optimizers)
        raise UsageError(
            f"the reference optimizer {reference!r} is not in the run; say --reference with one of: {choices}"
        )
    return parse_suite(replace(suite, reference=reference).to_json(), f"{suite.name} with these options")


def suite_to_look_at(options: argparse.Namespace) -> Suite:
    """The suite of `fairbench try`: one arena, the optimizers that are compared, the user's last."""
    suite = load_suite(options.suite)
    named = named_arenas([options.arena or next(iter(suite.arenas))], suite)
    arenas = {name: replace(plan, tuned_on="") for name, plan in named.items()}  # it is looked at where it stands
    optimizers = named_optimizers([*_chosen_words("--against", options.against), options.optimizer], suite.optimizers)
    optimizers = with_settings({name: _within(plan, arenas) for name, plan in optimizers.items()}, options.set)
    look = replace(suite, arenas=arenas, optimizers=optimizers, reference=[*optimizers][-1], ladder=[])
    return parse_suite(look.to_json(), f"{suite.name} with these options")


def _with_grid(sweep: Sweep, text: str) -> Sweep:
    """A sweep on another grid, of a text as 1e-4:1e-1:7, instead of the grid or the draws that it had."""
    lowest, _, rest = text.partition(":")
    highest, _, points = rest.partition(":")
    try:
        lr_min, lr_max, count = float(lowest), float(highest), int(points)
        if count < 1:  # the suite takes 0 for a number that is left out
            raise ValueError
    except ValueError:
        form = "lowest:highest:points, as 1e-4:1e-1:7"
        raise UsageError(f"--lr-grid must have the form {form}; got {text!r}") from None
    return replace(sweep, search="grid", lr_min=lr_min, lr_max=lr_max, points=count, budget=0, search_seed=0)


def with_settings(optimizers: Mapping[str, OptimizerPlan], settings: Iterable[str]) -> dict[str, OptimizerPlan]:
    """Optimizers with hyperparameters of texts as MyOpt.weight_decay=0.1; the values are TOML.

    Raises:
        UsageError: a text has another form, names no optimizer of these, or has a value that is none of TOML.
    """
    plans = dict(optimizers)
    for text in settings:
        place, equals, value = text.partition("=")
        name, _, option = place.strip().rpartition(".")
        if not (equals and name and option):
            raise UsageError(
                f"--set must have the form OPTIMIZER.option=value, as AdamW.weight_decay=0.1; got {text!r}"
            )
        plan = pick("optimizer", name, plans)
        try:
            given = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            advice = f"text needs quotes, as --set '{place}=\"{value.strip()}\"'"
            raise UsageError(f"--set {text}: {value.strip()!r} is no value of TOML; {advice}") from None
        plans[name] = replace(plan, options={**plan.options, option: given})
    return plans


def _name(options: argparse.Namespace) -> str:
    """The suite's name or file, which can be said in three ways."""
    ways = {"SUITE": options.chosen, "--suite": options.suite, "--smoke-test": "smoke" if options.smoke_test else None}
    given = {way: name for way, name in ways.items() if name}
    if len(set(given.values())) > 1:
        said = " and ".join(f"{way} means {name}" for way, name in given.items())
        raise UsageError(f"two suites were given: {said}; say one of them")
    return next(iter(given.values()), PAPER_SUITE if options.data_root else DEFAULT_SUITE)


def _within(plan: OptimizerPlan, arenas: Iterable[str]) -> OptimizerPlan:
    """An optimizer without what it has for other arenas."""
    return replace(plan, arenas={name: options for name, options in plan.arenas.items() if name in arenas})


def pick(kind: str, name: str, known: Mapping[str, PlanT]) -> PlanT:
    """The entry of that name; an unknown one is answered with the nearest."""
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def words(text: str) -> list[str]:
    """The words of a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _chosen_words(option: str, text: str) -> list[str]:
    """The words of an option that names at least one; an empty one is a mistake, as of an unset variable of a shell."""
    if not (found := words(text)):
        raise UsageError(f"{option} names nothing; leave it out, or say one or more, separated by commas")
    return found


def named_optimizers(names: Iterable[str], known: Mapping[str, OptimizerPlan]) -> dict[str, OptimizerPlan]:
    """Optimizers by their names in a suite, by names that fairbench knows, as module:Class or path/to/file.py:Class."""
    by_name = {**{name: OptimizerPlan() for name in known_optimizers()}, **known}
    plans: dict[str, OptimizerPlan] = {}
    for word in names:
        own = word not in known and ":" in word
        name = place_and_name(word, "optimizer factory")[1] if own else word
        if name in plans:
            raise UsageError(f"two optimizers are called {name!r}; give one another name in a suite file")
        if not own and word.endswith(".py"):
            raise UsageError(f"optimizer {word!r} names a file; say its class too, as {word}:MyOptimizer")
        plans[name] = OptimizerPlan(factory=word) if own else pick("optimizer", word, by_name)
    return plans


def named_arenas(names: list[str], suite: Suite) -> dict[str, ArenaPlan]:
    """Arenas by their names in the suite, and own ones as module:Class, path/to/file.py:Class or by their names.

    An own one is as its class says by default.

    Raises:
        UsageError: there is no such arena, its class leaves something open, or two have one name.
    """
    offered = known_arenas().keys() - ARENAS.keys()
    plans: dict[str, ArenaPlan] = {}
    for word in names:
        own = word not in suite.arenas and (":" in word or word in offered)
        name = place_and_name(word, "arena")[1] if ":" in word else word
        if name in plans:
            raise UsageError(f"two arenas are called {name!r}; give one another name in a suite file")
        plans[name] = own_arena(name, word) if own else pick("arena", word, suite.arenas)
    return plans


def own_arena(name: str, task: str) -> ArenaPlan:
    """An own arena as its class says by default.

    Raises:
        UsageError: there is no such class, or it leaves something open.
    """
    path = ("arenas", name)
    try:
        plan: ArenaPlan = build(ArenaPlan, completed(name, {"task": task}), path)
    except Wrong as wrong:
        key = ".".join(wrong.path[len(path) :])
        remedy = "" if key in ("", "task") else f"; say it in the arena's defaults or in a suite file's [arenas.{name}]"
        raise UsageError(f"--arenas {task}: {key}: {wrong.reason}{remedy}") from None
    return plan


def with_own_data(suite: Suite, folders: Mapping[str, str | None]) -> Suite:
    """A suite whose arenas take their data from a user's folders; how a model reads them stays as it is.

    Args:
        suite: the suite.
        folders: by kind of data, which is also the name of its source, the folder; None leaves those of that kind.

    Raises:
        UsageError: no arena takes data of a kind that is given.
    """
    arenas = dict(suite.arenas)
    for kind, folder in folders.items():
        taking = [name for name in arenas if folder and suite.facts(name).kind == kind]
        if folder and not taking:
            raise UsageError(f"--{kind} {folder}: none of these arenas takes {kind}: {', '.join(arenas)}")
        for name in taking:
            reading = {key: value for key, value in arenas[name].data.items() if key in READING[kind]}
            arenas[name] = replace(arenas[name], data={"source": kind, "path": folder, **OWN_DATA[kind], **reading})
    return replace(suite, arenas=arenas)


def data_needs(suite: Suite) -> set[str]:
    """Where the data of a suite comes from."""
    return {SOURCES[plan.data["source"]].title for plan in suite.arenas.values()}
