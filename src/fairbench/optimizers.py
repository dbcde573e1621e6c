"""Optimizers by name, and anyone's own as `module:Class`; every hyperparameter goes into the trial's spec."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbench.errors import UsageError, unknown
from fairbench.spec import OptimizerSpec
from fairbench.suite import OptimizerPlan

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class OptimizerFacts:
    """What fairbench knows of an optimizer without loading it.

    Attributes:
        factory: `module:Class`.
        title: what it is, in a few words.
        horizon: the argument that takes the number of training steps, empty when it has none.
    """

    factory: str
    title: str
    horizon: str = ""


OPTIMIZERS = {
    "Adam": OptimizerFacts("torch.optim:Adam", "Adam, from torch"),
    "AdamW": OptimizerFacts("torch.optim:AdamW", "Adam with decoupled weight decay, from torch"),
    "Lion": OptimizerFacts("pytorch_optimizer:Lion", "sign momentum, from pytorch-optimizer"),
    "PsiLogic": OptimizerFacts("psilogic:PsiLogic", "AdamW with chaos-gated cancellation", horizon="total_steps"),
}


@cache
def load_factory(factory: str) -> Callable[..., torch.optim.Optimizer]:
    """Import `module:Class`; modules of the working directory are found too.

    Raises:
        UsageError: there is no such module or class.
    """
    module_name, _, class_name = factory.partition(":")
    if not module_name or not class_name:
        raise UsageError(f"optimizer factory {factory!r} must have the form module:Class")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module of the user's may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"optimizer factory {factory!r}: cannot import {module_name!r}: {reason}") from error
    if not hasattr(module, class_name):
        classes = [name for name, value in vars(module).items() if inspect.isclass(value)]
        raise unknown(f"class in module {module_name}", class_name, classes)
    return getattr(module, class_name)  # type: ignore[no-any-return]


@cache
def source_digest(factory: str) -> str:
    """sha256 of the source that defines the factory: its package's folder, or its file when it is in none."""
    module = inspect.getmodule(inspect.unwrap(load_factory(factory)))
    file = Path(str(getattr(module, "__file__", "")))
    files = sorted(file.parent.rglob("*.py")) if getattr(module, "__package__", "") else [file]
    sha = hashlib.sha256()
    for path in files:
        content = path.read_bytes() if path.is_file() else b""
        sha.update(f"{path.relative_to(file.parent).as_posix()} {len(content)} ".encode() + content)
    return sha.hexdigest()


@dataclass(frozen=True)
class ResolvedOptimizer:
    """An optimizer with every hyperparameter but the learning rate and the horizon, which a trial adds.

    Attributes:
        name: what tables and figures call it.
        factory: `module:Class`.
        options: every argument of the factory, defaults included.
        horizon: the argument that takes the number of training steps; empty when none does.
        source: sha256 of the source that defines the class.
    """

    name: str
    factory: str
    options: Mapping[str, Any]
    horizon: str
    source: str

    def spec(self, lr: float, steps: int) -> OptimizerSpec:
        """The optimizer of a trial."""
        horizon = {self.horizon: steps} if self.horizon else {}
        return OptimizerSpec(self.name, self.factory, {**self.options, **horizon, "lr": lr}, self.source)


def resolve_optimizer(name: str, plan: OptimizerPlan) -> ResolvedOptimizer:
    """Import the optimizer, check the names of its hyperparameters and fill in its defaults.

    Args:
        name: what tables call it; when the plan has no factory, one that fairbench knows.
        plan: its factory and hyperparameters.

    Raises:
        UsageError: the optimizer has no such hyperparameter, or one is no plain value.
    """
    facts = OptimizerFacts(plan.factory, name) if plan.factory else OPTIMIZERS[name]
    arguments = list(inspect.signature(load_factory(facts.factory)).parameters.values())[1:]
    known = {argument.name: argument for argument in arguments}
    takes_any = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)
    for option in ("lr", *plan.options):
        if option not in known and not takes_any:
            raise unknown(f"hyperparameter of {name}", option, known)
    defaults = {key: value.default for key, value in known.items() if value.default is not inspect.Parameter.empty}
    try:
        complete = json.loads(json.dumps({**defaults, **plan.options}, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the hyperparameters of {name} must be plain numbers, strings and lists: {error}") from error
    horizon = "" if facts.horizon in plan.options else facts.horizon
    return ResolvedOptimizer(name, facts.factory, complete, horizon, source_digest(facts.factory))


def build_optimizer(spec: OptimizerSpec, params: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer of a trial."""
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in spec.options.items()}
    return load_factory(spec.factory)(params, **options)
