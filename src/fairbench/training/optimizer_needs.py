"""What the training loop does for an optimizer that needs more than gradients and a step.

The words are those of `fairbench.optimizers.resolve.NEEDS`; the loop knows no optimizer by name.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairbench.common.errors import UsageError
from fairbench.study.trial_spec import TrainingSpec

UNCOMPILED = ("create_graph", "closure")
"""Needs that torch.compile does not meet: compiled gradients have no derivative, a compiled step calls nothing back."""


class Contract:
    """The needs of one optimizer in one training.

    Args:
        needs: its needs.
        training: the training.

    Raises:
        UsageError: the training is compiled, and one of the needs rules that out.
    """

    def __init__(self, needs: Sequence[str], training: TrainingSpec) -> None:
        for need in UNCOMPILED:
            if training.compile and need in needs:
                raise UsageError(
                    f"an optimizer that needs {need!r} cannot be trained with training.compile; turn it off"
                )
        self.create_graph = "create_graph" in needs
        if self.create_graph:  # it warns of cycles, which the loop breaks in dropping the gradients of every step
            warnings.filterwarnings("ignore", "Using backward")
        self.constant_lr = "constant_lr" in needs
        self._closure, self._modes = "closure" in needs, "modes" in needs
        self._mode = ""

    def kernels(self) -> AbstractContextManager[None]:
        """Where the forward pass runs: the fast attention kernels have no second derivative."""
        return sdpa_kernel(SDPBackend.MATH) if self.create_graph else nullcontext()

    def closure(self, again: Callable[[], Tensor]) -> list[Callable[[], Tensor]]:
        """What the optimizer's step is called with."""
        return [again] if self._closure else []

    def tell(self, optimizer: torch.optim.Optimizer, mode: str) -> None:
        """Say that "train" or "eval" comes next, to an optimizer whose weights are others in training than after it."""
        if self._modes and mode != self._mode:
            getattr(optimizer, mode)()
            self._mode = mode

    def state_dict(self) -> dict[str, str]:
        """What the optimizer was told last."""
        return {"mode": self._mode}

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Know what the optimizer was told."""
        self._mode = state["mode"]
