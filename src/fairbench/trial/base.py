"""A trial as its training program sees it; outside of a study its methods do nothing, or what the program would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


# What returns nothing here does nothing outside of a study: `fairbench.trial.in_study` has what it does in one.
class Trial:
    """A trial of a study, as its training program sees it; every process of the program may have one.

    Attributes:
        folder: where the program writes, checkpoints too; kept until the trial has its record.
        steps: training steps to take.
        seed: of the initial weights and of the order of the data.
        about: the whole specification of the trial; empty outside of a study.
    """

    def __init__(self, folder: Path, steps: int, seed: int, about: Mapping[str, Any] | None = None) -> None:
        self.folder, self.steps, self.seed, self.about = folder, steps, seed, about or {}

    @property
    def active(self) -> bool:
        """Whether this process is part of a study."""
        return bool(self.about)

    @property
    def resumed(self) -> bool:
        """Whether an earlier attempt of this trial was interrupted; its files are still in the folder."""
        return bool(self.about.get("attempt", 1) > 1)

    def optimizer(
        self, model: torch.nn.Module, lr: float, provides: Sequence[str] = (), **options: Any
    ) -> torch.optim.Optimizer:
        """The optimizer of the trial for a model; outside of a study torch's AdamW.

        Args:
            model: its trainable parameters are optimized.
            lr: the learning rate outside of a study.
            provides: what the training loop does for an optimizer that needs it: "closure", "create_graph" or "modes".
            options: of AdamW, likewise.

        Raises:
            UsageError: the optimizer needs something of the loop that is not provided, or its code was changed since
                the study was planned.
        """
        import torch

        return torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=lr, **options)

    def lr_schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """The schedule of the learning rate that the study sets; outside of one the rate is constant.

        Call its `step` after each step of the optimizer.
        """
        from torch.optim.lr_scheduler import ConstantLR

        return ConstantLR(optimizer, 1.0)

    def start(self, model: torch.nn.Module) -> None:
        """Show the initial weights: call it before the first step, in every process that has a part of the model."""

    def batch(self, *tensors: torch.Tensor) -> None:
        """Show the data of a step: call it with each batch, in every process."""

    def log(self, step: int, **values: Any) -> None:
        """Report values after a step, counted from 1; call it in every process, of which the first one writes.

        Args:
            values: `train_loss`, and `val_NAME` and `test_NAME` of each metric, numbers or tensors with one element.
        """

    def result(self, val: Mapping[str, Any], test: Mapping[str, Any] | None = None) -> None:
        """Report the metrics after the last step; call it once in every process, of which the first one writes.

        Args:
            val, test: each metric of the arena on the validation and the test split.
        """

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint of the program should have, so that a trial that resumes shows as much as any other."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of the interrupted attempt; call it after `start` and `optimizer`."""
