"""The trial of a study as its program sees it; it shows initial weights, data, and what the optimizer did."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from fairbench.arenas.program import ProgramOptions
from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.optimizers.resolve import NEEDS, build_optimizer
from fairbench.optimizers.spec import OptimizerSpec
from fairbench.runner.code_identity import LoadedCode
from fairbench.study.record import plain_values
from fairbench.study.trial_spec import TrainingSpec
from fairbench.training.digests import tensor_bytes, weights_hash
from fairbench.training.mechanism import MechanismLog, PathLength
from fairbench.training.program import Evidence
from fairbench.training.schedules import lr_factor
from fairbench.trial.base import Trial

MET = ("constant_lr", "model", "named_parameters")
"""The needs of an optimizer that the loop of a program need not meet."""


class TrialInStudy(Trial):
    """Collects the evidence of one process of a training program; its methods do what those of `Trial` say."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        super().__init__(folder, about["training"]["steps"], about["seed"], about)
        self._rank = int(os.environ.get("RANK", "0"))
        self._spec, self._training = OptimizerSpec(**about["optimizer"]), TrainingSpec(**about["training"])
        self._watched = about["stage"] == "final"
        self._whole = about["attempt"] == 1
        self._model: nn.Module | None = None
        self._initial_weights, self._batches = "", ""
        self._done = 0
        self._mechanism: MechanismLog | None = None
        self._path_length: PathLength | None = None

    def optimizer(
        self, model: nn.Module, lr: float, provides: Sequence[str] = (), **options: Any
    ) -> torch.optim.Optimizer:
        """The optimizer of the trial, observed in a final trial."""
        loaded = LoadedCode(self._spec.code)
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
        if self._spec.code:  # it is known after the first steps of a study
            loaded.check()
        return optimizer

    def lr_schedule(self, optimizer: torch.optim.Optimizer) -> LambdaLR:
        constant = "constant_lr" in self._spec.needs
        return LambdaLR(optimizer, partial(lr_factor, training=self._training, constant=constant))

    def start(self, model: nn.Module) -> None:
        self._model, self._initial_weights = model, weights_hash(_plain(model))

    def batch(self, *tensors: Tensor) -> None:
        """Add a batch: hash = sha256(hash of all before it, values of its tensors)."""
        sha = hashlib.sha256(self._batches.encode())
        for tensor in tensors:
            sha.update(tensor_bytes(tensor))
        self._batches = sha.hexdigest()

    def log(self, step: int, **values: Any) -> None:
        if self._mechanism and "train_loss" in values:
            self._mechanism.read(step)
        self._write(step, {name.replace("_", "/", 1): value for name, value in values.items()})

    def result(self, val: Mapping[str, Any], test: Mapping[str, Any] | None = None) -> None:
        """Report the metrics and write the evidence; of an attempt that resumed without its state, only its own."""
        splits = {"val": val, "test": test or {}}
        self._write(self.steps, {f"{split}/{name}": x for split, of in splits.items() for name, x in of.items()})
        found = Evidence(
            self._initial_weights,
            self._batches if self._whole else "",
            weights_hash(_plain(self._model)) if self._model is not None else "",
            sum(p.numel() for p in self._model.parameters() if p.requires_grad) if self._model is not None else 0,
            self._path_length.length() if self._path_length and self._whole else None,
            self._mechanism.recorded() if self._mechanism and self._whole else None,
        )
        write_atomically(self.folder / f"evidence-{self._rank}.json", msgspec.json.encode(plain_values(found)))

    def state_dict(self) -> dict[str, Any]:
        return {
            "initial_weights": self._initial_weights,
            "batches": self._batches,
            "steps": self._done,
            "mechanism": self._mechanism and self._mechanism.state_dict(),
            "path_length": self._path_length and self._path_length.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not state:
            return
        self._initial_weights, self._batches = state["initial_weights"], state["batches"]
        self._done, self._whole = state["steps"], True
        for part in ("mechanism", "path_length"):
            if (own := getattr(self, f"_{part}")) and state[part]:
                own.load_state_dict(state[part])

    def _around_step(self, is_before: bool) -> None:
        self._done += is_before
        if self._path_length and (self._done % self._training.log_every == 0 or self._done == self.steps):
            self._path_length.begin() if is_before else self._path_length.end(self._done)

    def _write(self, step: int, values: Mapping[str, Any]) -> None:
        """Append a line to the results, in one write, so that a killed process leaves at most half of it."""
        numbers = {name: float(getattr(value, "detach", lambda x=value: x)()) for name, value in values.items()}
        for name in numbers:
            if name.partition("/")[0] not in ("train", "val", "test"):
                raise UsageError(f"trial.log({name}=...): names begin with train_, val_ or test_, as val_loss")
        options = self.about["arena"]["model"]
        if options["results"] != ProgramOptions.results:
            remedy = f"leave results out of the suite, which has {options['results']!r}"
            raise UsageError(f"trial.log writes {ProgramOptions.results}: {remedy}, or report without it")
        if self._rank == 0:
            row = {options["keys"].get(key, key): value for key, value in ({"step": int(step)} | numbers).items()}
            with (self.folder / ProgramOptions.results).open("a") as file:
                file.write(json.dumps(row) + "\n")


def _plain(model: nn.Module) -> nn.Module:
    """The model that DistributedDataParallel wraps, otherwise the model."""
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
