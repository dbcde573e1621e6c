"""The facts that a training program shows of its trial: initial weights, data, and the work of the optimizer.

This module imports torch.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import torch
from msgspec.structs import replace
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from fairbench.common.errors import UsageError
from fairbench.common.loaded_modules import LoadedCode
from fairbench.optimizers.building import build_optimizer
from fairbench.optimizers.needs import NEEDS
from fairbench.optimizers.spec import HORIZON, OptimizerSpec
from fairbench.study.record import plain_values
from fairbench.study.trial_spec import TrainingSpec
from fairbench.training.digests import tensor_bytes, weights_hash
from fairbench.training.mechanism import MechanismLog, PathLength
from fairbench.training.program_record import Fingerprints
from fairbench.training.schedules import lr_factor


class FingerprintCollector:
    """The collector of the fingerprints of one process of a training program.

    `fairbench.trial.Trial` describes the methods of the same names.

    Args:
        about: the specification of the trial.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._watched = about["stage"] == "final"
        self._whole = about["attempt"] == 1  # whether all steps of the trial were seen
        self._spec = OptimizerSpec(**about["optimizer"])
        self._training = TrainingSpec(**about["training"])
        self._model: nn.Module | None = None
        self._initial_weights = ""
        self._batches = ""
        self._done = 0
        self._begun = 0  # steps of the optimizer in this process
        self.mechanism = MechanismLog(None, ())
        self._path_length: PathLength | None = None

    def optimizer(self, model: nn.Module, provides: Sequence[str], steps: int) -> torch.optim.Optimizer:
        """Build the optimizer of the trial, which takes some number of steps, and observe it in a final trial."""
        loaded = LoadedCode(self._spec.code)
        self._check_needs(provides)
        has_horizon = self._spec.options.get(HORIZON) == self._training.steps
        self._training = dataclasses.replace(self._training, steps=steps)
        if has_horizon:
            self._spec = dataclasses.replace(self._spec, options={**self._spec.options, HORIZON: steps})
        optimizer = build_optimizer(self._spec, model)
        if has_horizon:
            optimizer.register_step_pre_hook(self._check_horizon)
        self._model = _plain(model)
        if self._watched:
            self.mechanism = MechanismLog(optimizer, self._model.named_parameters())
            params = _trainable(model)
            # The path length of DTensors is not measured.
            if not any(hasattr(p, "full_tensor") for p in params):
                self._path_length = PathLength(params)
                optimizer.register_step_pre_hook(self._before_step)
                optimizer.register_step_post_hook(self._after_step)
        if self._spec.code:  # before the first steps of a study the code is not known yet
            loaded.check()
        return optimizer

    def _check_horizon(self, *_: Any) -> None:
        """Raise UsageError before the optimizer takes a step beyond the last one that it was told of."""
        self._begun += 1
        if self._begun > self._training.steps:
            call = "trial.optimizer(model, steps=epochs * len(batches), ...)"
            remedy = f"if they count something else, such as epochs, say {call}"
            raise UsageError(
                f"optimizer {self._spec.name} was told that it takes {self._training.steps} steps ({HORIZON}), and "
                f"takes more: these are those of the trial; {remedy}"
            )

    def _check_needs(self, provides: Sequence[str]) -> None:
        """Raise UsageError if the optimizer needs more than the training loop provides."""
        met = ("constant_lr", "model", "named_parameters", *provides)  # this class meets the first three
        for need in self._spec.needs:
            if need not in met:
                remedy = f'let the training loop do that, and say so: trial.optimizer(model, provides=["{need}"], ...)'
                raise UsageError(f"optimizer {self._spec.name} needs that {NEEDS.get(need, need)}; {remedy}")

    def lr_schedule(self, optimizer: torch.optim.Optimizer) -> LambdaLR:
        """The schedule of the learning rate that the study sets."""
        constant = "constant_lr" in self._spec.needs
        return LambdaLR(optimizer, partial(lr_factor, training=self._training, constant=constant))

    def start(self, model: nn.Module) -> None:
        """Show the initial weights."""
        self._model = _plain(model)
        self._initial_weights = weights_hash(self._model)

    def batch(self, *tensors: Tensor) -> None:
        """Add a batch: hash = sha256(hash of all batches before, values of the tensors of the batch)."""
        sha = hashlib.sha256(self._batches.encode())
        for tensor in tensors:
            sha.update(tensor_bytes(tensor))
        self._batches = sha.hexdigest()

    def encoded(self) -> bytes:
        """The fingerprints as JSON.

        An attempt that resumed without the state of the earlier one has not seen all steps: their facts are left out.
        """
        fingerprints = Fingerprints(initial_weights=self._initial_weights)
        if self._model is not None:
            parameters = sum(p.numel() for p in _trainable(self._model))
            fingerprints = replace(fingerprints, final_weights=weights_hash(self._model), parameters=parameters)
        if self._whole:
            length = self._path_length.length() if self._path_length else None
            fingerprints = replace(
                fingerprints,
                batches=self._batches,
                path_length=length,
                mechanism=self.mechanism.recorded(),
            )
        return msgspec.json.encode(plain_values(fingerprints))

    def state_dict(self) -> dict[str, Any]:
        return {
            "initial_weights": self._initial_weights,
            "batches": self._batches,
            "steps": self._done,
            "mechanism": self.mechanism.state_dict(),
            "path_length": self._path_length.state_dict() if self._path_length else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._initial_weights = state["initial_weights"]
        self._batches = state["batches"]
        self._done = state["steps"]
        self._whole = True
        if state["mechanism"]["watch"] is not None:
            self.mechanism.load_state_dict(state["mechanism"])
        if self._path_length and state["path_length"]:
            self._path_length.load_state_dict(state["path_length"])

    def _before_step(self, *_: Any) -> None:
        """Count a step of the optimizer, and begin a sample of the path length if one is due."""
        self._done += 1
        if self._path_length and self._is_sampled():
            self._path_length.begin()

    def _after_step(self, *_: Any) -> None:
        """End the sample of the path length."""
        if self._path_length and self._is_sampled():
            self._path_length.end(self._done)

    def _is_sampled(self) -> bool:
        """Whether the path length is sampled in this step."""
        return self._done % self._training.log_every == 0 or self._done == self._training.steps


def _trainable(model: nn.Module) -> list[nn.Parameter]:
    """The trainable parameters of a model."""
    return [p for p in model.parameters() if p.requires_grad]


def _plain(model: nn.Module) -> nn.Module:
    """The model itself, without a wrapper of DistributedDataParallel."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        wrapped: nn.Module = model.module
        return wrapped
    return model
