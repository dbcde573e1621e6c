"""What a training program shows of a trial: its initial weights, its data, and what the optimizer did."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.optimizers.resolve import NEEDS, build_optimizer
from fairbench.optimizers.spec import OptimizerSpec
from fairbench.study.record import plain_values
from fairbench.study.trial_spec import TrainingSpec
from fairbench.training.determinism import tensor_bytes, weights_hash
from fairbench.training.mechanism import MechanismLog, PathLength
from fairbench.training.program import Evidence
from fairbench.training.schedules import lr_factor

MET = ("constant_lr", "model", "named_parameters")
"""The needs of an optimizer that the loop of a program need not meet."""


class EvidenceLog:
    """Collects the evidence of one process of a training program, whose specification is that of the trial."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._spec, self._training = OptimizerSpec(**about["optimizer"]), TrainingSpec(**about["training"])
        self._watched = about["stage"] == "final"
        self._whole = about["attempt"] == 1
        self._model: nn.Module | None = None
        self._initial_weights, self._batches = "", ""
        self._steps = 0
        self._mechanism: MechanismLog | None = None
        self._path_length: PathLength | None = None

    def optimizer(self, model: nn.Module, provides: Sequence[str]) -> torch.optim.Optimizer:
        """The optimizer of the trial, observed in a final trial."""
        for need in self._spec.needs:
            if need not in (*MET, *provides):
                remedy = f'let the training loop do that, and say so: trial.optimizer(model, provides=["{need}"], ...)'
                raise UsageError(f"optimizer {self._spec.name} needs that {NEEDS.get(need, need)}; {remedy}")
        optimizer = build_optimizer(self._spec, model)
        self._model = model
        if self._watched:
            self._mechanism = MechanismLog(optimizer, _plain(model).named_parameters())
            params = [p for p in model.parameters() if p.requires_grad]
            if not any(hasattr(p, "full_tensor") for p in params):
                self._path_length = PathLength(params)
                optimizer.register_step_pre_hook(lambda *_: self._around_step(is_before=True))
                optimizer.register_step_post_hook(lambda *_: self._around_step(is_before=False))
        return optimizer

    def lr_schedule(self, optimizer: torch.optim.Optimizer) -> LambdaLR:
        constant = "constant_lr" in self._spec.needs
        return LambdaLR(optimizer, partial(lr_factor, training=self._training, constant=constant))

    def start(self, model: nn.Module) -> None:
        self._model, self._initial_weights = model, weights_hash(_plain(model))

    def batch(self, tensors: Sequence[Tensor]) -> None:
        """Add a batch: hash = sha256(hash of all before it, values of its tensors)."""
        sha = hashlib.sha256(self._batches.encode())
        for tensor in tensors:
            sha.update(tensor_bytes(tensor))
        self._batches = sha.hexdigest()

    def read_mechanism(self, step: int) -> None:
        """Read what the optimizer's mechanism did since the last call."""
        if self._mechanism:
            self._mechanism.read(step)

    def write(self, file: Path) -> None:
        """Write the evidence; of an attempt that resumed without `load_state_dict`, only what it shows itself."""
        found = Evidence(
            self._initial_weights,
            self._batches if self._whole else "",
            weights_hash(_plain(self._model)) if self._model is not None else "",
            sum(p.numel() for p in self._model.parameters() if p.requires_grad) if self._model is not None else 0,
            self._path_length.length() if self._path_length and self._whole else None,
            self._mechanism.recorded() if self._mechanism and self._whole else None,
        )
        write_atomically(file, msgspec.json.encode(plain_values(found)))

    def state_dict(self) -> dict[str, Any]:
        return {
            "initial_weights": self._initial_weights,
            "batches": self._batches,
            "steps": self._steps,
            "mechanism": self._mechanism and self._mechanism.state_dict(),
            "path_length": self._path_length and self._path_length.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._initial_weights, self._batches = state["initial_weights"], state["batches"]
        self._steps, self._whole = state["steps"], True
        for part in ("mechanism", "path_length"):
            if (own := getattr(self, f"_{part}")) and state[part]:
                own.load_state_dict(state[part])

    def _around_step(self, is_before: bool) -> None:
        self._steps += is_before
        if self._path_length and (self._steps % self._training.log_every == 0 or self._steps == self._training.steps):
            self._path_length.begin() if is_before else self._path_length.end(self._steps)


def _plain(model: nn.Module) -> nn.Module:
    """The model that DistributedDataParallel wraps, otherwise the model."""
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
