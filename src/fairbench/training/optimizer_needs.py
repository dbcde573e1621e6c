"""What the training loop does for an optimizer that needs more than gradients and a step.

The words are those of `fairbench.optimizers.resolve.NEEDS`; the loop knows no optimizer by name.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairbench.common.errors import UsageError
from fairbench.study.trial_spec import TrainingSpec

UNCOMPILED = ("create_graph", "closure")
"""Needs that torch.compile excludes: compiled gradients have no derivative, a compiled step calls no closure."""


class OptimizerNeeds:
    """The needs of one optimizer in one training.

    Raises:
        UsageError: the training is compiled, and a need excludes that.
    """

    def __init__(self, needs: Sequence[str], training: TrainingSpec) -> None:
        for need in UNCOMPILED:
            if training.compile and need in needs:
                raise UsageError(
                    f"an optimizer that needs {need!r} cannot be trained with training.compile; turn it off"
                )
        self.create_graph = "create_graph" in needs
        if self.create_graph:  # torch warns of cycles; the loop breaks them when it sets the gradients to None
            warnings.filterwarnings("ignore", "Using backward")
        self.constant_lr = "constant_lr" in needs
        self.closure = "closure" in needs
        self._modes = "modes" in needs
        self._mode = ""

    def kernels(self) -> AbstractContextManager[None]:
        """The context of the forward pass: fast attention kernels are off if second derivatives are needed."""
        return sdpa_kernel(SDPBackend.MATH) if self.create_graph else nullcontext()

    def switch(self, optimizer: torch.optim.Optimizer, mode: str) -> None:
        """Switch an optimizer that has modes to "train" or "eval": each mode has different weights."""
        if self._modes and mode != self._mode:
            getattr(optimizer, mode)()
            self._mode = mode

    def state_dict(self) -> dict[str, str]:
        """The mode of the optimizer."""
        return {"mode": self._mode}

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Set the mode of an optimizer whose state has been loaded."""
        self._mode = state["mode"]
