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
    found = getattr(module, class_name)
    if not callable(found):
        raise UsageError(f"optimizer factory {factory!r} is no class but {found!r}")
    return found  # type: ignore[no-any-return]


@cache
def source_digest(factory: str) -> str:
    """sha256 of the source that defines the factory and its parent classes.

    Of a class in a package that is the package's folder, of one in a file of its own the file.
    """
    sha = hashlib.sha256()
    for module in dict.fromkeys(map(inspect.getmodule, inspect.getmro(_as_class(load_factory(factory))))):
        file = Path(str(getattr(module, "__file__", "")))
        files = sorted(file.parent.rglob("*.py")) if getattr(module, "__package__", "") else [file]
        for path in files:
            content = path.read_bytes() if path.is_file() else b""
            sha.update(f"{path.relative_to(file.parent).as_posix()} {len(content)} ".encode() + content)
    return sha.hexdigest()


def _as_class(factory: Callable[..., Any]) -> type:
    """The factory itself, or the class of nothing but its own module when it is a function."""
    if inspect.isclass(factory):
        return factory
    return type(getattr(factory, "__name__", "factory"), (), {"__module__": inspect.unwrap(factory).__module__})


def _horizon(factory: str) -> str:
    """The argument that takes the number of training steps: that of the known class it is, or descends from."""
    found = _as_class(load_factory(factory))
    asking = (facts for facts in OPTIMIZERS.values() if facts.horizon)
    return next((facts.horizon for facts in asking if issubclass(found, _as_class(load_factory(facts.factory)))), "")


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
    # A default that is no plain value stays where it is, in the source, which the digest covers.
    defaults = {key: value.default for key, value in known.items() if _is_plain(value.default)}
    for option, value in plan.options.items():
        if not _is_plain(value):
            raise UsageError(f"optimizers.{name}.options.{option} must be a finite plain value, got {value!r}")
    complete = json.loads(json.dumps({**defaults, **plan.options}))
    horizon = _horizon(facts.factory)
    return ResolvedOptimizer(
        name, facts.factory, complete, "" if horizon in plan.options else horizon, source_digest(facts.factory)
    )


def _is_plain(value: Any) -> bool:
    """Whether JSON can hold the value."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def build_optimizer(spec: OptimizerSpec, params: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer of a trial."""
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in spec.options.items()}
    return load_factory(spec.factory)(params, **options)
