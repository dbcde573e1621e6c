"""The factories of optimizers: how they are imported, what class or function is behind them, and their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from fairbench.common.coercion import is_json
from fairbench.common.errors import UsageError
from fairbench.common.imports import load

if TYPE_CHECKING:
    import torch


def load_factory(factory: str) -> Callable[..., torch.optim.Optimizer]:
    """Import `module:Class` or `path/to/file.py:Class`, see `fairbench.common.imports`."""
    loaded = load(factory, "optimizer factory")
    if not callable(loaded):
        raise UsageError(f"optimizer factory {factory!r} must be a class or a function, got {loaded!r}")
    return loaded  # type: ignore[no-any-return]


def unwrap_factory(factory: Any) -> Any:
    """The class or function behind a factory, which may be a partial, a bound method, or an object that is called."""
    factory = inspect.unwrap(factory)
    if isinstance(factory, partial):
        return unwrap_factory(factory.func)
    if inspect.isclass(factory) or inspect.isroutine(factory):
        return factory
    return type(factory).__call__


def constructors(factory: Any) -> list[Any]:
    """The factory itself, then the constructor of its class and those of all parent classes that define one."""
    callables = [factory]
    unwrapped = unwrap_factory(factory)
    if inspect.isclass(unwrapped):
        for cls in inspect.getmro(unwrapped):
            if "__init__" in vars(cls):
                callables.append(vars(cls)["__init__"])
    return callables


@dataclass(frozen=True)
class Arguments:
    """The arguments of a factory after the first one, the parameters.

    Attributes:
        by_name: every argument by its name, including `**options`.
        takes_any: whether the factory takes any keyword, by `**options`.
    """

    by_name: Mapping[str, inspect.Parameter]
    takes_any: bool

    def take(self, name: str) -> bool:
        """Whether the factory takes an argument with a name."""
        return name in self.by_name or self.takes_any

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults that JSON can hold. A trial's identity has the others through the hash of the code."""
        return {name: argument.default for name, argument in self.by_name.items() if is_json(argument.default)}

    @property
    def required(self) -> list[str]:
        """The names of the arguments that have no default."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return [
            name
            for name, argument in self.by_name.items()
            if argument.default is argument.empty and argument.kind in kinds
        ]


def arguments_of(factory: str) -> Arguments:
    """The arguments of a factory after the first one."""
    parameters = list(inspect.signature(load_factory(factory)).parameters.values())
    arguments = parameters[1:]
    return Arguments(
        by_name={argument.name: argument for argument in arguments},
        takes_any=any(argument.kind is argument.VAR_KEYWORD for argument in arguments),
    )
