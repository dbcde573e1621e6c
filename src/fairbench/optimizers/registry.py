"""The optimizers that a suite can name, with facts that need no import of the optimizer.

The facts of fairbench's optimizers are in `facts.toml`, and a test measures each of them. Installed packages add
further optimizers.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from fairbench.common.coercion import build
from fairbench.common.imports import entry_points
from fairbench.common.toml import tomllib
from fairbench.optimizers.spec import OptimizerPlan


@dataclass(frozen=True)
class OptimizerFacts:
    """What fairbench knows of an optimizer without loading it.

    Attributes as those of `fairbench.optimizers.spec.OptimizerPlan`, and:
        title: the method, in a few words.
        decay: whether its weight decay is "decoupled" from the gradient, "coupled" (a part of it), "none" or "unknown".
        state: numbers that it keeps for each weight of a hidden matrix, without `factors`.
        factors: further state that grows with the model, in words; empty for none.
        reference: the paper.
    """

    factory: str
    title: str
    decay: Literal["coupled", "decoupled", "none", "unknown"] = "decoupled"
    options: Mapping[str, Any] = field(default_factory=dict)
    groups: str = ""
    lr_scale: float = 1.0
    lr: float | None = None
    needs: Sequence[str] = ()
    state: int = 2
    factors: str = ""
    reference: str = ""


FACTS = Path(__file__).with_name("facts.toml")
_TABLES = tomllib.loads(FACTS.read_text("utf-8"))
OPTIMIZERS: Mapping[str, OptimizerFacts] = build(dict[str, OptimizerFacts], _TABLES, ())
"""The optimizers of fairbench by their names."""
ENTRY_POINTS = "fairbench.optimizers"
"""The entry point under which installed packages register optimizers: `Name = "module:Class"`."""


@cache
def known_optimizers() -> Mapping[str, OptimizerFacts]:
    """Every registered optimizer by its name: fairbench's, and those of installed packages.

    A package cannot replace a name of fairbench or of an earlier package; it gets a warning.
    """
    known = dict(OPTIMIZERS)
    for entry in entry_points().select(group=ENTRY_POINTS):
        package = entry.dist.name if entry.dist else entry.value
        if entry.name in known:
            ignored = f"{ENTRY_POINTS}: {entry.name!r} of {package} is ignored"
            warnings.warn(f"{ignored}, since it is {known[entry.name].factory} already", stacklevel=2)
        else:
            known[entry.name] = OptimizerFacts(entry.value, title=f"from {package}", decay="unknown")
    return known


def known_modules(optimizers: Mapping[str, OptimizerPlan]) -> set[str]:
    """The modules of the registered ones among some optimizers. Each process loads the modules of users itself."""
    known = known_optimizers()
    modules = set()
    for name, plan in optimizers.items():
        if not plan.factory and name in known:
            module, _, _ = known[name].factory.partition(":")
            modules.add(module)
    return modules


def facts_of(factory: str) -> OptimizerFacts | None:
    """The facts of fairbench's optimizer with a factory; None if no optimizer of fairbench has this factory."""
    for facts in OPTIMIZERS.values():
        if facts.factory == factory:
            return facts
    return None
