"""What the training loop does for an optimizer that needs more than gradients and a step.

The needs are the words of `fairbench.optimizers.needs.NEEDS`. The loop depends on no optimizer's name.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairbench.common.errors import UsageError
from fairbench.optimizers.needs import CALL, PARTS
from fairbench.study.trial_spec import TrainingSpec

Closure = Callable[..., Any]
"""A function that computes the loss and the gradients of the step's examples again, at the current weights.

With `clipped=False` the gradients are not clipped.
"""
UNCOMPILED = ("create_graph", "closure")
"""The needs that torch.compile excludes: compiled gradients have no derivative, a compiled step calls no closure."""


def recomputes(needs: Iterable[str]) -> bool:
    """Whether an optimizer with these needs makes the loop compute gradients again in every step."""
    return any(need == "closure" or PARTS.fullmatch(need) for need in needs)


class Call(NamedTuple):
    """A method of the optimizer that the loop calls every few steps.

    Attributes:
        method: the name of the method.
        every: the number of steps between two calls.
        with_gradients: whether gradients that are not clipped are computed before the call.
    """

    method: str
    every: int
    with_gradients: bool


class OptimizerNeeds:
    """The needs of an optimizer in one training, and how the loop meets them.

    Args:
        optimizer: the optimizer.
        needs: the words of its needs.
        training: the training of the trial.

    Raises:
        UsageError: the training is compiled, and a need excludes that.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, needs: Sequence[str], training: TrainingSpec) -> None:
        for need in UNCOMPILED:
            if training.compile and need in needs:
                raise UsageError(
                    f"an optimizer that needs {need!r} cannot be trained with training.compile; turn it off"
                )
        self.create_graph = "create_graph" in needs
        if self.create_graph:  # torch warns of cycles; the loop breaks them when it sets the gradients to None
            warnings.filterwarnings("ignore", "Using backward")
        self.constant_lr = "constant_lr" in needs
        self._closure = "closure" in needs
        self._modes = "modes" in needs
        self._parts: list[str] = []
        self._calls: list[Call] = []
        for need in needs:
            if PARTS.fullmatch(need):
                self._parts += need.split(" then ")
            call = CALL.fullmatch(need)
            if call:
                method, every, with_gradients = call.groups()
                self._calls.append(Call(method=method, every=int(every), with_gradients=bool(with_gradients)))
        self._mode = ""
        self.steps = 0
        self._compile = training.compile
        self._optimizer = optimizer
        if self._parts:  # torch's schedule would warn that `step` was never called
            optimizer._opt_called = True  # type: ignore[attr-defined]

    @property
    def methods(self) -> set[str]:
        """The methods of the optimizer that the loop calls, apart from `step`."""
        methods = set(self._parts)
        methods.update(call.method for call in self._calls)
        if self._modes:
            methods |= {"train", "eval"}
        return methods

    def kernels(self) -> AbstractContextManager[None]:
        """The context of the forward pass: fast attention kernels are off if second derivatives are needed."""
        return sdpa_kernel(SDPBackend.MATH) if self.create_graph else nullcontext()

    @cached_property
    def own_step(self) -> Callable[[Closure], None]:
        """The method `step` of the optimizer, which a schedule may have wrapped, or the methods in its place.

        It gets the closure, whether the optimizer calls it or not.
        """
        parts = [getattr(self._optimizer, part) for part in self._parts]
        whole: Callable[..., Any] = self._optimizer.step
        if self._compile:
            whole = torch.compile(whole)

        def in_parts(closure: Closure) -> None:
            for number, part in enumerate(parts):
                if number > 0:
                    closure()
                part()

        def with_closure(closure: Closure) -> None:
            whole(closure)

        def alone(_: Closure) -> None:
            whole()

        if parts:
            return in_parts
        return with_closure if self._closure else alone

    def step(self, closure: Closure) -> None:
        """Take a step with the present gradients, call further methods of the optimizer, and remove the gradients."""
        self.own_step(closure)
        for call in self._calls:
            if self.steps % call.every == 0:
                if call.with_gradients:
                    closure(clipped=False)
                getattr(self._optimizer, call.method)()
        self.steps += 1
        self._optimizer.zero_grad()

    def switch(self, mode: str) -> None:
        """Switch an optimizer that has modes to "train" or "eval": each mode has different weights."""
        if self._modes and mode != self._mode:
            getattr(self._optimizer, mode)()
            self._mode = mode

    def state_dict(self) -> dict[str, Any]:
        return {"mode": self._mode, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._mode = state["mode"]
        self.steps = state["steps"]
