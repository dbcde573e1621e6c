"""The case of a check: an optimizer on a small task; and the check itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from fairbench.arenas.registry import load_arena
from fairbench.optimizers.resolve import build_optimizer, resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan, ResolvedOptimizer
from fairbench.study.plan import ResolvedArena, Study, trial_spec
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.suites.search import search_for
from fairbench.training.place import Place
from fairbench.training.trainer import Trainer
from fairbench.training.trial import trial

TASK = str(Path(__file__).with_name("task.toml"))
Seen = TypeVar("Seen")


@dataclass(frozen=True)
class ShortTraining:
    """A short training at one learning rate.

    Attributes:
        lr: the rate.
        start: mean training loss of the first steps.
        end: mean training loss of the last steps; None if the training diverged.
    """

    lr: float
    start: float
    end: float | None


@dataclass(frozen=True)
class Case:
    """An optimizer with the task that it is checked on.

    Attributes:
        study: the task, with this optimizer alone.
        trainings: a short training at each rate.
    """

    study: Study
    trainings: Sequence[ShortTraining] = ()

    @property
    def optimizer(self) -> ResolvedOptimizer:
        """The optimizer."""
        return next(iter(self.study.optimizers.values()))

    @property
    def best(self) -> ShortTraining:
        """The training with the lowest loss at its end."""
        return min(self.trainings, key=lambda x: float("inf") if x.end is None else x.end)

    def spec(self, lr: float, groups: str = "") -> TrialSpec:
        """The task's trial at a rate; `groups` make the parameter groups of an optimizer that has none."""
        spec = trial_spec(self.study, "vit", self.optimizer.name, "sweep", lr, 0)
        return replace(spec, optimizer=replace(spec.optimizer, groups=spec.optimizer.groups or groups))

    def training(self, steps: int, groups: str = "") -> Trainer:
        """The training at the best rate after a number of steps."""
        trainer = Trainer(self.spec(self.best.lr, groups), Place())
        for _ in range(steps):
            trainer.train_one_step()
        return trainer

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer at the best rate, for another model."""
        optimizer = build_optimizer(self.spec(self.best.lr).optimizer, model)
        if "modes" in self.optimizer.needs:
            optimizer.train()  # type: ignore[attr-defined]
        return optimizer

    def closure(self, optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """The closure that computes a loss and its gradients, as this optimizer needs them."""

        def closure() -> Tensor:
            optimizer.zero_grad()
            value = loss()
            value.backward(create_graph="create_graph" in self.optimizer.needs)
            return value

        return closure

    def step(self, optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> None:
        """Take one step of an optimizer from `build`."""
        closure = self.closure(optimizer, loss)
        if "closure" in self.optimizer.needs:
            optimizer.step(closure)  # type: ignore[arg-type]
        else:
            closure()
            optimizer.step()


def case_of(name: str, plan: OptimizerPlan) -> Case:
    """The case of an optimizer, without trainings.

    Raises:
        UsageError: the optimizer does not exist, or has no such hyperparameter.
    """
    task = replace(load_suite(TASK), reference=name, optimizers={name: plan})
    resolved = resolve_optimizer(name, plan)
    data = load_arena("vit").open_data(task.arenas["vit"].data, Path())
    return Case(Study(task, "cpu", {"vit": ResolvedArena(data.fingerprint, {}, {})}, {name: resolved}, {}))


def trained(case: Case) -> Case:
    """A case with its trainings: at every rate of the task, or at the optimizer's own rate."""
    sweep, optimizer = case.study.suite.sweep, case.optimizer
    trainings = []
    for setting in search_for(sweep, optimizer.lr_scale, optimizer.lr).first():
        record = trial(case.spec(setting.lr))
        losses = [loss for _, loss in record["result"]["loss_curve"]] or [float("nan")]
        finished = record["status"] == "finished"
        trainings.append(ShortTraining(setting.lr, losses[0], losses[-1] if finished else None))
    return replace(case, trainings=trainings)


def around_step(trainer: Trainer, look: Callable[[], Seen]) -> tuple[Seen, Seen]:
    """Take a training step; returns the results of `look` right before and right after the optimizer's own step."""
    seen: list[Seen] = []
    step = trainer.step

    def watched(*arguments: Any) -> Any:
        seen.append(look())
        value = step(*arguments)
        seen.append(look())
        return value

    trainer.step = watched
    trainer.train_one_step()
    trainer.step = step
    return seen[0], seen[1]


def weights(trainer: Trainer) -> list[Tensor]:
    """A copy of the weights."""
    return [p.detach().clone() for p in trainer.params]


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in a value, at any depth of dicts, lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from tensors(each)


def distance(old: Sequence[Tensor], new: Sequence[Tensor]) -> float:
    """The L2 distance between weights, over all tensors."""
    return float(torch.stack([(a - b).double().norm() for a, b in zip(old, new, strict=True)]).norm())


def error_text(error: Exception) -> str:
    """An exception in one line."""
    return shorten(f"it raises {type(error).__name__}: {error}", 160, placeholder=" ...")
