"""The training of a trial: all that takes part in it, and one step of it."""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import torch._dynamo  # torch loads it in an optimizer's first step: not on the clock's time
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from fairbench.arenas.base import Arena
from fairbench.arenas.registry import load_arena, load_arena_data
from fairbench.arenas.shocks.kinds import Shock, Shocks
from fairbench.common.errors import UsageError
from fairbench.data.batches import Batches
from fairbench.data.splits import Data
from fairbench.optimizers.resolve import build_optimizer
from fairbench.optimizers.state import load_optimizer_state, optimizer_state
from fairbench.study.trial_spec import ArenaSpec, TrainingSpec, TrialSpec
from fairbench.training.determinism import generator_states, one_thread, set_generator_states, weights_hash
from fairbench.training.environment import reset_peak_memory
from fairbench.training.evaluation import evaluate
from fairbench.training.mechanism import MechanismLog, Way
from fairbench.training.optimizer_needs import Contract
from fairbench.training.phase_timer import clock
from fairbench.training.place import Place


def lr_factor(step: int, training: TrainingSpec, constant: bool = False) -> float:
    """What the learning rate is multiplied by in step 0, 1, ...: a linear warm-up to 1, then a cosine to 0, or none."""
    if step < training.warmup_steps:
        return (step + 1) / training.warmup_steps
    if constant:
        return 1.0
    decay_steps = max(training.steps - training.warmup_steps, 1)
    return 0.5 * (1 + math.cos(math.pi * min((step - training.warmup_steps) / decay_steps, 1.0)))


class Training:
    """The training of a trial, from its first step on.

    Args:
        spec: the trial.
        place: where it runs.
    """

    def __init__(self, spec: TrialSpec, place: Place) -> None:
        self.spec, self.training, self.place = spec, spec.training, place
        self.contract = Contract(spec.optimizer.needs, spec.training)
        self.device = torch.device(place.device)
        reset_peak_memory(self.device)
        self.clock = clock(self.device)
        self.arena = load_arena(spec.arena.task)
        self.data = declared_data(self.arena, spec.arena, Path(place.data_root)).to(self.device)

        torch.manual_seed(spec.seed)
        self.model = self.arena.build_model(self.data, **spec.arena.model)
        self.initial_weights = weights_hash(self.model)
        self.model.to(self.device).train()
        self.params = [p for p in self.model.parameters() if p.requires_grad]

        self.batches = Batches(self.data, spec.arena.batch_size, self.training.steps, spec.seed, self.device)
        self.noise = torch.Generator(self.device).manual_seed(spec.seed)
        self.shocks = Shocks(self.training.shock, self.training.steps, spec.seed, self.device)
        self.optimizer = build_optimizer(spec.optimizer, self.model)
        constant = self.contract.constant_lr
        self.schedule = LambdaLR(self.optimizer, partial(lr_factor, training=self.training, constant=constant))
        self.watched = spec.stage == "final"  # a sweep only selects, and to watch is no part of a step's price
        self.mechanism = MechanismLog(self.optimizer if self.watched else None, self.model.named_parameters())
        self.way = Way(self.params)
        self.clipped = torch.zeros((), device=self.device)
        self.trained = cast(nn.Module, torch.compile(self.model)) if self.training.compile else self.model
        step: Callable[..., Any] = self.optimizer.step
        self.step = torch.compile(step) if self.training.compile else step

    def autocast(self) -> torch.autocast:
        """The precision in which the model computes."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.training.precision == "bfloat16")

    def evaluate(self, name: str) -> dict[str, float]:
        """Every metric of one of the splits."""
        self.contract.tell(self.optimizer, "eval")
        with self.autocast():
            metrics = evaluate(self.arena, self.trained, self.data, name, self.training.evaluation_batch_size)
        self.clock.lap("eval")
        self.clock.read()
        return metrics

    def train_step(self, step: int = 1, sampled: bool = False) -> Tensor:
        """One step; returns the loss, still on the device.

        Args:
            step: which one it is, from 1.
            sampled: whether it stands for the steps since the last sample in how far the weights move.
        """
        self.contract.tell(self.optimizer, "train")
        shock = self.shocks.of(step)
        examples = shock.examples(self.arena.examples(self.batches.next(), self.noise))
        again = partial(self.gradients_anew, examples, shock, shock.generator.get_state())
        self.clock.lap("data")
        loss = self.gradients(examples, shock)
        if sampled:
            self.way.begin()
            self.clock.lap("log")
        self.clipped += self.disturb_and_clip(shock)
        self.step(*self.contract.closure(again))
        self.optimizer.zero_grad()
        self.schedule.step()
        self.clock.lap("step")
        if sampled:
            self.way.end(step)
            self.clock.lap("log")
        return loss.detach()

    def gradients(self, examples: tuple[Tensor, ...], shock: Shock) -> Tensor:
        """Add the gradients of the loss of these examples; returns the loss."""
        with self.autocast(), self.contract.kernels():
            loss = self.arena.loss(self.trained, *examples)
        self.clock.lap("forward")
        shock.loss(loss).backward(create_graph=self.contract.create_graph)
        self.clock.lap("backward")
        return loss

    def disturb_and_clip(self, shock: Shock) -> Tensor | bool:
        """Let a shock change the gradients, then clip them; returns whether they were longer."""
        shock.gradients(self.params)
        if self.training.clip_norm == 0:
            return False
        return nn.utils.clip_grad_norm_(self.params, self.training.clip_norm) > self.training.clip_norm

    def gradients_anew(self, examples: tuple[Tensor, ...], shock: Shock, drawn: Tensor) -> Tensor:
        """The closure of a step: loss and gradients at the weights as they are now, treated as the first ones were.

        Args:
            examples: those of the step.
            shock: that of the step.
            drawn: state of its randomness before the first loss, so that it does the same whenever it is asked.
        """
        shock.generator.set_state(drawn)
        self.optimizer.zero_grad()
        loss = self.gradients(examples, shock)
        self.disturb_and_clip(shock)
        return loss.detach()

    def timed_step(self) -> float:
        """One step; returns its seconds."""
        with one_thread():
            began = time.perf_counter()
            self.train_step().item()
        return time.perf_counter() - began

    def state_dict(self) -> dict[str, Any]:
        """What the steps so far have left, and nothing that differs from run to run: plain values and tensors."""
        return {
            **{name: part.state_dict() for name, part in self._parts().items()},
            "optimizer": optimizer_state(self.optimizer),
            "noise": self.noise.get_state(),
            "clipped": self.clipped,
            "generators": generator_states(self.device),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` found another training of the same trial; this one has taken no step."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.noise.set_state(state["noise"].cpu())
        self.clipped = state["clipped"]
        set_generator_states(state["generators"], self.device)

    def _parts(self) -> dict[str, Any]:
        """The parts that give their state and take it."""
        return {
            "model": self.model,
            "schedule": self.schedule,
            "batches": self.batches,
            "shocks": self.shocks,
            "contract": self.contract,
            "mechanism": self.mechanism,
            "way": self.way,
        }


def declared_data(arena: Arena, spec: ArenaSpec, data_root: Path) -> Data:
    """The data of a trial, which its identity names by their sha256.

    Raises:
        UsageError: they are others by now.
    """
    data = load_arena_data(arena, spec.data, data_root)
    if data.fingerprint != spec.fingerprint:
        reason = f"sha256 {data.fingerprint[:12]} and not {spec.fingerprint[:12]}"
        raise UsageError(
            f"the data of arena {spec.name} have changed since the study was planned: {reason}; run it again"
        )
    return data
