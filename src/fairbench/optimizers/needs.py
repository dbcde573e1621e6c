"""What optimizers need of the training loop: the words of `needs`, and how a class shows its needs."""

import inspect
import re
from collections.abc import Iterable
from typing import Any

from fairbench.common.errors import unknown
from fairbench.optimizers.factories import load_factory, unwrap_factory
from fairbench.optimizers.registry import facts_of

NEEDS = {
    "create_graph": "the gradients are differentiable",
    "closure": "step() gets a function that computes loss and gradients again",
    "modes": "its train() and eval() are called before the model is trained and evaluated",
    "constant_lr": "the learning rate is warmed up and then constant",
    "model": "its constructor gets the model in place of the parameters",
    "named_parameters": "its constructor gets pairs of a name and a parameter",
}
"""What an optimizer may need of the training loop; further needs name its methods, see `METHODS`."""
METHODS = {
    "A then B": "its methods A() and B() take the place of step(), with new gradients before each",
    "A every 10 steps": "its method A() is called after the first step, and then after every tenth",
    "A every 10 steps with gradients": "the same, after the gradients are computed again and not clipped",
}
"""Needs that name methods of the optimizer."""
PARTS = re.compile(r"\w+( then \w+)+")
"""The form of a need that names methods which take the place of step()."""
CALL = re.compile(r"(\w+) every ([1-9]\d*) steps( with gradients)?")
"""The form of a need that names a method to be called every few steps."""
FIRST_ARGUMENT = {
    "model": ("model", "module", "net", "network"),
    "named_parameters": ("named_parameters", "named_params"),
}
"""The names of a constructor's first argument that show a need. Any other name stands for parameters."""
NEED_OF_ERROR = {
    "closure": "closure",
    "grad_fn|does not require grad|(create|retain)_graph": "create_graph",
}
"""Patterns in the message of an error in a step, and the need that each of them shows."""


def names_methods(need: str) -> bool:
    """Whether a need has one of the forms of `METHODS`."""
    return bool(PARTS.fullmatch(need) or CALL.fullmatch(need))


def check_needs(needs: Iterable[str]) -> None:
    """Raise `UsageError` for the first unknown need."""
    for need in needs:
        if need not in NEEDS and not names_methods(need):
            raise unknown("need of the training loop", need, [*NEEDS, *METHODS])


def needs_of(factory: str, groups: str) -> list[str]:
    """The needs of a factory: those in the registry or, without an entry, those that its code shows.

    A class shows them by its methods, and a factory by the name of its first argument.

    Args:
        factory: `module:Class`.
        groups: `module:function` that makes parameter groups, which are then the first argument; empty for none.
    """
    facts = facts_of(factory)
    if facts is not None:
        return list(facts.needs)
    loaded = load_factory(factory)
    optimizer = unwrap_factory(loaded)
    needs = []
    if _step_requires_closure(optimizer):
        needs.append("closure")
    if _has_methods(optimizer, "train", "eval"):
        needs.append("modes")
    if _has_methods(optimizer, "first_step", "second_step"):
        needs.append("first_step then second_step")
    if not groups:
        first_argument = next(iter(inspect.signature(loaded).parameters), "")
        for need, names in FIRST_ARGUMENT.items():
            if first_argument in names:
                needs.append(need)
    return needs


def _step_requires_closure(optimizer: Any) -> bool:
    """Whether the method `step` of a class has an argument `closure` without a default."""
    step = getattr(optimizer, "step", None)
    if step is None:
        return False
    closure = inspect.signature(step).parameters.get("closure")
    return closure is not None and closure.default is closure.empty


def _has_methods(optimizer: Any, *names: str) -> bool:
    """Whether a class has all these methods."""
    return all(callable(getattr(optimizer, name, None)) for name in names)


def remedy(name: str, error: BaseException, is_built: bool) -> str:
    """Settings that may help after an optimizer raised an error, ready to be pasted.

    Args:
        name: the name of the optimizer.
        error: the error.
        is_built: whether the constructor had returned before the error.

    Returns:
        The settings that may help; empty if none is known.
    """
    if not is_built:
        set_model = _set_need(name, "model")
        set_groups = f"--set 'optimizers.{name}.groups=\"file.py:function\"'"
        return (
            f"fairbench passes a list of parameters, then lr and the options by name; {set_model} passes "
            f'the model first, ["named_parameters"] pairs of a name and a parameter, and {set_groups} what a function '
            f"makes of the model; --set {name}.OPTION=VALUE sets an option"
        )
    message = str(error)
    remedies = []
    for pattern, need in NEED_OF_ERROR.items():
        if re.search(pattern, message):
            remedies.append(f"{_set_need(name, need)}: {NEEDS[need]}")
    return "; ".join(remedies)


def _set_need(name: str, need: str) -> str:
    """The option of a command that sets a need of an optimizer."""
    return f"--set 'optimizers.{name}.needs=[\"{need}\"]'"
