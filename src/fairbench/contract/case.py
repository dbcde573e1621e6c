"""The case of a check, which is an optimizer on a small task, and short trainings for the checks."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from fairbench.arenas.registry import load_arena
from fairbench.optimizers.building import build_optimizer
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan, ResolvedOptimizer
from fairbench.study.planned_trial import trial_spec
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.suites.search import search_for
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.optimizer_needs import OptimizerNeeds
from fairbench.training.trainer import Trainer

TASK = str(Path(__file__).with_name("task.toml"))
SOME_STEPS = 12
"""The number of steps of a check of single steps. Work that is done in every tenth step shows in them, too."""
MOST_STEPS = 30
"""The most steps in which a check waits for steps that move weights. Some optimizers skip steps of large gradients."""
ObservedT = TypeVar("ObservedT")


@dataclass(frozen=True)
class ShortTraining:
    """A short training at one learning rate.

    Attributes:
        lr: the learning rate.
        start: the loss of all training examples before the training.
        end: the loss of all training examples after the training; None if it diverged.
    """

    lr: float
    start: float
    end: float | None


@dataclass(frozen=True)
class Case:
    """An optimizer with the task on which it is checked.

    Attributes:
        study: the task as a study with this one optimizer.
        trainings: a short training at each rate; empty before the trainings, or if one of them failed.
        settings: the global settings before the optimizer was loaded, see `fairbench.contract.global_settings`.
    """

    study: ResolvedSuite
    trainings: Sequence[ShortTraining] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def optimizer(self) -> ResolvedOptimizer:
        """The checked optimizer."""
        return next(iter(self.study.optimizers.values()))

    @property
    def rates(self) -> list[float]:
        """All learning rates of the task, or the fixed rate of the optimizer."""
        search = search_for(self.study.suite.sweep, self.optimizer)
        return [point.lr for point in search.first()]

    @property
    def steps(self) -> int:
        """The number of steps of a whole training."""
        return self.study.suite.arenas["vit"].sweep_steps

    @property
    def best(self) -> ShortTraining:
        """The training with the lowest loss at its end; the middle rate if there are no trainings."""
        if not self.trainings:
            middle = self.rates[len(self.rates) // 2]
            return ShortTraining(middle, start=math.nan, end=None)
        return min(self.trainings, key=_loss_at_end)

    def spec(self, lr: float, groups: str = "") -> TrialSpec:
        """The trial of the task at a rate.

        Args:
            lr: the learning rate.
            groups: `module:function` that makes parameter groups for an optimizer without groups of its own.
        """
        spec = trial_spec(self.study, "vit", self.optimizer.name, "sweep", lr, 0)
        optimizer = replace(spec.optimizer, groups=spec.optimizer.groups or groups)
        return replace(spec, optimizer=optimizer)

    def training(self, steps: int, groups: str = "") -> Trainer:
        """A training at the best rate after some steps; see `spec` for `groups`."""
        trainer = Trainer(self.spec(self.best.lr, groups), DeviceSlot())
        for _ in range(steps):
            trainer.train_one_step()
        return trainer


def _loss_at_end(training: ShortTraining) -> float:
    """The loss at the end of a training; infinite if the training diverged."""
    return math.inf if training.end is None else training.end


class SmallTraining:
    """A training of another model than the task's model, at the best rate. It takes the same steps as a `Trainer`.

    Args:
        case: the case of the check.
        model: the model.
        loss: returns the loss of the model.
    """

    def __init__(self, case: Case, model: nn.Module, loss: Callable[[], Tensor]) -> None:
        spec = case.spec(case.best.lr)
        self._loss = loss
        self.optimizer = build_optimizer(spec.optimizer, model)
        self.needs = OptimizerNeeds(self.optimizer, spec.optimizer.needs, spec.training)
        self.needs.switch("train")

    def gradients(self, clipped: bool = True) -> Tensor:
        """Compute the gradients, which are never clipped here; returns the loss."""
        self.optimizer.zero_grad()
        value = self._loss()
        value.backward(create_graph=self.needs.create_graph)
        return value.detach()

    def step(self) -> float:
        """Take one step. Returns its seconds, without the time for the first gradients."""
        self.gradients()
        began = time.perf_counter()
        self.needs.step(self.gradients)
        return time.perf_counter() - began


def case_of(name: str, plan: OptimizerPlan) -> Case:
    """The case of an optimizer, without trainings."""
    task = replace(load_suite(TASK), reference=name, optimizers={name: plan})
    optimizer = resolve_optimizer(name, plan)
    data = load_arena("vit").open_data(task.arenas["vit"].data, Path())
    arena = ResolvedArena(data.fingerprint, code={}, starts={})
    study = ResolvedSuite(task, "cpu", arenas={"vit": arena}, optimizers={name: optimizer}, environment={})
    return Case(study)


def train_at(case: Case, lr: float) -> ShortTraining:
    """Train at a rate to the last step, and measure the loss of all training examples before and after."""
    trainer = Trainer(case.spec(lr), DeviceSlot())
    start = trainer.evaluate("train")["loss"]
    finished = trainer.run(lambda *_: None, None) == "finished"
    end = None
    if finished:
        loss = trainer.evaluate("train")["loss"]
        if math.isfinite(loss):
            end = loss
    return ShortTraining(lr, start, end)


def around_step(trainer: Trainer, observe: Callable[[], ObservedT]) -> tuple[ObservedT, ObservedT]:
    """Take a training step. Returns the results of `observe` right before and right after the optimizer's own step."""
    observed: list[ObservedT] = []
    step = trainer.needs.own_step

    def observed_step(*arguments: Any) -> Any:
        observed.append(observe())
        value = step(*arguments)
        observed.append(observe())
        return value

    trainer.needs.own_step = observed_step
    trainer.train_one_step()
    trainer.needs.own_step = step
    return observed[0], observed[1]


def train_moving_steps(trainer: Trainer, count: int, most: int = MOST_STEPS) -> int:
    """Take steps until some have moved weights. A step that an optimizer skips shows nothing of how it takes steps.

    Args:
        trainer: the training.
        count: the number of steps that must move weights.
        most: the most steps that are taken.

    Returns:
        How many of the steps have moved weights; less than `count` if `most` steps were not enough.
    """
    moving = 0
    for _ in range(most):
        old = weights(trainer)
        trainer.train_one_step()
        moving += any(moves(old, weights(trainer)))
        if moving == count:
            break
    return moving


def weights(trainer: Trainer) -> list[Tensor]:
    """A copy of the weights of each tensor."""
    return [p.detach().clone() for p in trainer.params]


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in a value, at any depth of dicts, lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors(each)


def moves(old: Iterable[Tensor], new: Iterable[Tensor]) -> list[float]:
    """The L2 distance between the old and the new values of each tensor."""
    return [float((a - b).double().norm()) for a, b in zip(old, new, strict=True)]
