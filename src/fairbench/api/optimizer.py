"""An optimizer that a user gives: by its name, its file or its module, or as a class of a notebook."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from fairbench.api.source import is_in_main, source_of
from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.named_plans import named_optimizers

OptimizerLike = str | Callable[..., Any]
"""A name, `module:Class` or `path/to/file.py:Class`, or a class or function."""
FOLDER = "optimizers"


@dataclass(frozen=True)
class UserOptimizer:
    """An optimizer for a suite.

    Attributes:
        source: the text of a module with the class, if it is defined in a notebook or script; otherwise empty.
    """

    name: str
    plan: OptimizerPlan
    source: str = ""

    def placed(self, folder: Path) -> OptimizerPlan:
        """The plan of the optimizer, so that processes of trials can load it. Its source is written below a folder.

        The file is named by its content: an edited class is another optimizer, and running trials keep their file.
        """
        if not self.source:
            return self.plan  # trials import it from where it is
        _, _, class_name = self.plan.factory.rpartition(":")
        content_hash = sha256(self.source.encode()).hexdigest()
        file = folder / FOLDER / f"{class_name}-{content_hash[:12]}.py"
        if not file.exists():
            write_atomically(file, self.source)
        return replace(self.plan, factory=f"{os.path.relpath(file)}:{class_name}")


def user_optimizer(
    optimizer: OptimizerLike, name: str | None = None, known: Mapping[str, OptimizerPlan] | None = None
) -> UserOptimizer:
    """The optimizer that a user gives.

    Args:
        optimizer: a known name, `module:Class`, `path/to/file.py:Class`, or a class or function.
        name: its name in tables; None for that of the class.
        known: the optimizers of a suite, which a name means first.

    Raises:
        UsageError: there is no such optimizer, or trials cannot load it.
    """
    if isinstance(optimizer, str):
        plans = named_optimizers([optimizer], known or {})
        own_name, plan = next(iter(plans.items()))
        return UserOptimizer(name or own_name, plan)
    if not callable(optimizer) or not hasattr(optimizer, "__qualname__"):
        named = "or what a file names, such as 'path/to/file.py:Name', which may be a partial"
        raise UsageError(f"an optimizer is a name, a class, a function, {named}; got {optimizer!r}")
    own_name = optimizer.__qualname__
    plan = OptimizerPlan(factory=f"{optimizer.__module__}:{own_name}")
    if is_in_main(optimizer):
        return UserOptimizer(name or own_name, plan, source=source_of(optimizer))
    module = inspect.getmodule(optimizer)
    if getattr(module, own_name, None) is not optimizer:
        raise UsageError(f"{own_name} is not at the top of its module, so that trials cannot import it; move it there")
    return UserOptimizer(name or own_name, plan)
