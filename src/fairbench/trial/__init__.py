"""The side of a training program: the trial of a study that it is part of.

    trial = fairbench.trial.current(steps=2000)
    optimizer = trial.optimizer(model, lr=3e-4)
    trial.log(step, train_loss=loss)
    trial.result(val={"loss": val_loss}, test={"loss": test_loss})

Outside of a study `current` gives the values of the program, `optimizer` is AdamW, and the rest does nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbench.arenas.program import ABOUT, ASKED, FOLDER, RESULT, ProgramOptions, own_folder
from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically

if TYPE_CHECKING:
    import torch

    from fairbench.trial.fingerprints import FingerprintCollector

__all__ = ["Trial", "current"]


def current(steps: int = 0, seed: int = 0, folder: str | Path = ".", lr: float | None = None, **options: Any) -> Trial:
    """The trial that this process is part of.

    Args:
        steps, seed, folder, lr: the values outside of a study, where nothing else is known.
        options: the values of `Trial.options` outside of a study; in a study they hold for what it does not set.

    >>> trial = fairbench.trial.current(steps=100)
    >>> trial.active, trial.steps
    (False, 100)
    """
    trial_folder = os.environ.get(FOLDER)
    if trial_folder:
        about = json.loads((own_folder(Path(trial_folder)) / ABOUT).read_text())
        return _of_study(Path(trial_folder), about, steps, options)
    return Trial(Path(folder), steps, seed, lr, options)


def _of_study(folder: Path, about: Mapping[str, Any], own_steps: int, own_options: Mapping[str, Any]) -> Trial:
    """The trial of a study. A program that trains as long as it always does keeps its own number of steps."""
    steps = about["training"]["steps"]
    if about["arena"]["model"]["own_length"]:
        steps = own_steps
    given = about["optimizer"]["options"]
    options = {**own_options, **given}
    lr = options.pop("lr", None)
    return Trial(folder, steps, about["seed"], lr, options, about)


class Trial:
    """A trial of a study, for its training program. Every process of the program may make one.

    Attributes:
        folder: the folder for the program's files, including checkpoints. It is kept until the trial has its record.
    """

    def __init__(
        self,
        folder: Path,
        steps: int,
        seed: int,
        lr: float | None = None,
        options: Mapping[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self._steps = steps
        self._seed = seed
        self._lr = lr
        self._options = options or {}
        self._about = about or {}
        self._rank = int(os.environ.get("RANK", "0"))
        self._fingerprints: FingerprintCollector | None = None

    @property
    def active(self) -> bool:
        """Whether this process is part of a study."""
        return bool(self._about)

    @property
    def steps(self) -> int:
        """The number of training steps to take."""
        return self._steps

    @property
    def seed(self) -> int:
        """The seed of the initial weights and of the order of the data."""
        self._note("seed")
        return self._seed

    @property
    def lr(self) -> float | None:
        """The learning rate; None where neither the study nor the program has one."""
        self._note("lr")
        return self._lr

    @property
    def options(self) -> Mapping[str, Any]:
        """The other options by their names: those of the optimizer or the variant, for a program without torch."""
        self._note("options")
        return self._options

    @property
    def about(self) -> Mapping[str, Any]:
        """The whole specification of the trial; empty outside of a study."""
        self._note("about")
        return self._about

    def _note(self, name: str) -> None:
        """Note what the program has asked for, so that a study can say what does not reach it."""
        if self.active:
            (own_folder(self.folder) / f"{ASKED}{name}").touch()

    @property
    def resumed(self) -> bool:
        """Whether an earlier attempt of this trial was interrupted; its files are still in the folder."""
        return bool(self._about.get("attempt", 1) > 1)

    def optimizer(
        self, model: torch.nn.Module, lr: float, provides: Sequence[str] = (), steps: int | None = None, **options: Any
    ) -> torch.optim.Optimizer:
        """The optimizer of the trial for a model. Outside of a study it is torch's AdamW.

        The optimizer is observed in a final trial.

        Args:
            model: the model, whose trainable parameters are optimized.
            lr: the learning rate outside of a study.
            provides: what the training loop does for an optimizer that needs it: "closure", "create_graph" or "modes".
            steps: the steps of the optimizer in the whole training, where the trial's steps count something else, as
                epochs.
            options: the options of AdamW outside of a study.

        Raises:
            UsageError: the optimizer needs something of the loop that is not provided, or its code was changed since
                the study was planned.
        """
        if self.active:
            self._note("optimizer")
            return self._collector().optimizer(model, provides, steps or self._steps)
        import torch

        params = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.AdamW(params, lr=lr, **options)

    def lr_schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """The schedule of the learning rate that the study sets. Outside of a study the rate is constant.

        Call its `step` after each step of the optimizer.
        """
        if self.active:
            return self._collector().lr_schedule(optimizer)
        from torch.optim.lr_scheduler import ConstantLR

        return ConstantLR(optimizer, 1.0)

    def start(self, model: torch.nn.Module) -> None:
        """Show the initial weights: call it before the first step, in every process that has a part of the model."""
        if self.active:
            self._collector().start(model)

    def batch(self, *tensors: torch.Tensor) -> None:
        """Show the data of a step: call it with each batch, in every process."""
        if self.active:
            self._collector().batch(*tensors)

    def log(self, step: int, **values: Any) -> None:
        """Report values after a step, counted from 1; call it in every process, of which the first one writes.

        Args:
            values: `train_loss`, and `val_NAME` and `test_NAME` of each metric, numbers or tensors with one element.
        """
        if self._fingerprints and "train_loss" in values:
            self._fingerprints.mechanism.read(step)
        by_key = {}
        for name, value in values.items():
            key = name.replace("_", "/", 1)  # val_loss is val/loss in the results
            by_key[key] = value
        self._write(step, by_key)

    def result(self, val: Mapping[str, Any], test: Mapping[str, Any] | None = None) -> None:
        """Report the metrics after the last step; call it once in every process, of which the first one writes.

        Args:
            val, test: each metric of the arena on the validation and the test split.
        """
        values = {f"val/{name}": value for name, value in val.items()}
        for name, value in (test or {}).items():
            values[f"test/{name}"] = value
        self._write(self._steps, values, result=True)
        if self.active:
            self._write_fingerprints()

    def _write_fingerprints(self) -> None:
        """Write what this process has shown of the model and the data; an empty object if it has shown nothing."""
        encoded = b"{}"
        if self._fingerprints:
            encoded = self._fingerprints.encoded()
        write_atomically(own_folder(self.folder) / f"fingerprints-{self._rank}.json", encoded)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint of the program, so that a trial that resumes shows as much as any other."""
        return self._fingerprints.state_dict() if self._fingerprints else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of the interrupted attempt; call it after `start` and `optimizer`."""
        if state and self.active:
            self._collector().load_state_dict(state)

    def _collector(self) -> FingerprintCollector:
        """The collector of fingerprints, which is made at its first use: a program may do without torch."""
        if self._fingerprints is None:
            from fairbench.trial.fingerprints import FingerprintCollector

            self._fingerprints = FingerprintCollector(self._about)
        return self._fingerprints

    def _write(self, step: int, values: Mapping[str, Any], *, result: bool = False) -> None:
        """Append a line to the file of results, if this is the first process of a trial in a study.

        Args:
            step: the step of the values.
            values: numbers, or tensors with one element, by keys as "val/loss".
            result: whether these are the values at the end, which count whatever was logged at the same step.

        Raises:
            UsageError: a key is not that of a split, or the study reads another file.
        """
        if not self.active:
            return
        numbers = {key: _number(value) for key, value in values.items()}
        for key in numbers:
            split, _, _ = key.partition("/")
            if split not in ("train", "val", "test"):
                raise UsageError(f"trial.log({key}=...): names begin with train_, val_ or test_, as val_loss")
        options = self._about["arena"]["model"]
        if options["results"] != ProgramOptions.results:
            remedy = f"leave results out of the suite, which has {options['results']!r}"
            raise UsageError(f"trial.log writes {ProgramOptions.results}: {remedy}, or report without it")
        if self._rank != 0:
            return
        name_of_key = options["keys"]  # in the results, where the suite gives another name
        row: dict[str, Any] = {}
        for key, value in {"step": int(step), **numbers}.items():
            row[name_of_key.get(key, key)] = value
        if result:
            row[RESULT] = True
        line = json.dumps(row) + "\n"
        with (self.folder / ProgramOptions.results).open("a") as file:
            file.write(line)  # at once, so that a killed process leaves at most one incomplete line


def _number(value: Any) -> float:
    """The value of a number or of a tensor with one element."""
    if hasattr(value, "detach"):
        value = value.detach()
    return float(value)
