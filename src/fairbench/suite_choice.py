"""The suite that a command line asks for."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TypeVar

from fairbench.arenas import ARENAS
from fairbench.errors import UsageError, unknown
from fairbench.optimizers import OPTIMIZERS
from fairbench.suite import OptimizerPlan, Suite
from fairbench.suite_file import load_suite, suite_names

PlanT = TypeVar("PlanT")
DEFAULT_SUITE = "mini"


def chosen_suite(options: argparse.Namespace) -> Suite:
    """The suite that the options ask for, narrowed to the arenas and optimizers that they name."""
    if options.suite and options.smoke_test and options.suite != "smoke":
        raise UsageError(f"--smoke-test means --suite smoke, but --suite {options.suite} was given too")
    if options.data_root and not options.suite and not options.smoke_test:
        needs = "\n".join(f"  {name}: {'; '.join(sorted(data_needs(load_suite(name))))}" for name in suite_names())
        raise UsageError(
            f"--data-root {options.data_root} was given without --suite. The paper's own study needs TinyStories, "
            "CIFAR-100, Tiny ImageNet and CelebA; this version has no suite that reads them. Say --suite with one of\n"
            f"{needs}"
        )
    suite = load_suite("smoke" if options.smoke_test else options.suite or DEFAULT_SUITE)
    if options.arenas:
        suite = replace(suite, arenas={name: pick("arena", name, suite.arenas) for name in words(options.arenas)})
    if options.optimizers:
        suite = replace(suite, optimizers=named_optimizers(words(options.optimizers), suite))
    reference = options.reference or suite.reference
    if reference not in suite.optimizers:
        choices = ", ".join(suite.optimizers)
        raise UsageError(
            f"the reference optimizer {reference!r} is not in the run; say --reference with one of: {choices}"
        )
    return replace(suite, reference=reference)


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


def data_needs(suite: Suite) -> set[str]:
    """Where the data of a suite comes from."""
    return {ARENAS[arena].data for arena in suite.arenas}
