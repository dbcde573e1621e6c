"""The suite that a command line asks for."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from fairbench.arenas import ARENAS, known_arenas
from fairbench.arenas.own import completed
from fairbench.data.facts import SOURCES
from fairbench.errors import UsageError, unknown
from fairbench.optimizers import OPTIMIZERS
from fairbench.suite import ArenaPlan, OptimizerPlan, Suite
from fairbench.suite_file import load_suite, parse_suite
from fairbench.suite_values import Wrong, build

PlanT = TypeVar("PlanT")
DEFAULT_SUITE = "mini"
PAPER_SUITE = "paper"
"""The suite of whoever names a folder of data and no suite, as the paper's own command does."""


def chosen_suite(options: argparse.Namespace) -> Suite:
    """The suite that the options ask for, narrowed to the arenas and optimizers that they name."""
    suite = load_suite(_name(options))
    if options.compile:
        suite = replace(suite, training=replace(suite.training, compile=True))
    if options.arenas:
        arenas = named_arenas(words(options.arenas), suite)
        optimizers = {name: _within(plan, arenas) for name, plan in suite.optimizers.items()}
        narrowed = replace(suite, arenas=arenas, optimizers=optimizers)
        suite = parse_suite(narrowed.to_json(), f"--arenas {options.arenas}")
    if options.optimizers:
        suite = replace(suite, optimizers=named_optimizers(words(options.optimizers), suite))
        if not set(suite.ladder) <= suite.optimizers.keys():  # a rung less, and the next would be two causes
            suite = replace(suite, ladder=[])
    reference = options.reference or suite.reference
    if reference not in suite.optimizers:
        choices = ", ".join(suite.optimizers)
        raise UsageError(
            f"the reference optimizer {reference!r} is not in the run; say --reference with one of: {choices}"
        )
    return replace(suite, reference=reference)


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


def pick(kind: str, name: str, known: dict[str, PlanT]) -> PlanT:
    """The entry of that name; an unknown one is answered with the nearest."""
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def words(text: str) -> list[str]:
    """The words of a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def named_optimizers(names: list[str], suite: Suite) -> dict[str, OptimizerPlan]:
    """Optimizers by their names in the suite, by names that fairbench knows, or as module:Class."""
    known = {**{name: OptimizerPlan() for name in OPTIMIZERS}, **suite.optimizers}
    plans: dict[str, OptimizerPlan] = {}
    for word in names:
        own = ":" in word
        name = word.rpartition(":")[2] if own else word
        if name in plans:
            raise UsageError(f"two optimizers are called {name!r}; give one another name in a suite file")
        plans[name] = OptimizerPlan(factory=word) if own else pick("optimizer", word, known)
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
        name = word.rpartition(":")[2]
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


def data_needs(suite: Suite) -> set[str]:
    """Where the data of a suite comes from."""
    return {SOURCES[plan.data["source"]].title for plan in suite.arenas.values()}
