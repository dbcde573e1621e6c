"""The training of a trial: the loop, one step of it, and an evaluation."""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import torch
import torch._dynamo  # torch imports it in an optimizer's first step: that import must not be timed
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from fairbench.arenas.registry import load_arena
from fairbench.arenas.shocks.kinds import Shocks
from fairbench.data.batches import Batches
from fairbench.optimizers.building import build_optimizer
from fairbench.optimizers.registry import facts_of
from fairbench.optimizers.state import load_optimizer_state, optimizer_state
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.determinism import generator_states, one_thread, set_generator_states
from fairbench.training.device_memory import peak_memory, reset_peak_memory
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.digests import weights_hash
from fairbench.training.evaluation import evaluate
from fairbench.training.mechanism import MechanismLog, PathLength
from fairbench.training.optimizer_needs import OptimizerNeeds
from fairbench.training.phase_timer import clock, work_seconds
from fairbench.training.schedules import lr_factor
from fairbench.training.unsaved import changed, unsaved
from fairbench.training.unused import Marks, marks

Progress = Callable[[int, float], None]
"""A function that is called after each window of steps, with the number of steps done and the window's mean loss."""
FIRST_STEPS = 2
"""The number of trial steps of every optimizer in every arena before a study begins.

An optimizer that creates its state late should have done so after them.
"""
UNTIMED_STEPS = 10
"""The first steps of a timing trial, which create the optimizer's state, compile, and fill caches."""
PROGRESS = ("done", "window", "loss_curve", "evaluations", "kept", "marks")
"""The attributes with what a trainer has collected so far."""
PARTS = ("model", "schedule", "batches", "shocks", "needs", "mechanism", "path_length")
"""The parts of a trainer that have a state of their own."""


class Trainer:
    """The training of the model of a trial, from its first step or from a checkpoint."""

    def __init__(self, spec: TrialSpec, slot: DeviceSlot) -> None:
        self.started = time.perf_counter()
        self.spec = spec
        self.plan = spec.training
        self.slot = slot
        self.device = torch.device(slot.device)
        reset_peak_memory(self.device)
        self.clock = clock(self.device)
        self.arena = load_arena(spec.arena.task)
        data = self.arena.open_data(spec.arena.data, Path(slot.data_root), spec.arena.fingerprint)
        self.data = data.to(self.device)

        torch.manual_seed(spec.seed)
        self.model = self.arena.build_model(self.data, **spec.arena.model)
        self.initial_weights = weights_hash(self.model)
        self.model.to(self.device).train()
        self.params = [p for p in self.model.parameters() if p.requires_grad]

        self.batches = Batches(self.data, spec.arena.batch_size, self.plan.steps, spec.seed, self.device)
        self.noise = torch.Generator(self.device).manual_seed(spec.seed)
        self.shocks = Shocks(self.plan.shock, self.plan.steps, spec.seed, self.device)
        self.optimizer = build_optimizer(spec.optimizer, self.model)
        self.needs = OptimizerNeeds(self.optimizer, spec.optimizer.needs, self.plan)
        factor = partial(lr_factor, training=self.plan, constant=self.needs.constant_lr)
        self.schedule = LambdaLR(self.optimizer, factor)
        self.watched = spec.stage == "final"  # sweeps only select, and timings must not include the observation
        self.mechanism = MechanismLog(self.optimizer if self.watched else None, self.model.named_parameters())
        self.path_length = PathLength(self.params)
        self.clipped = torch.zeros((), device=self.device)
        self.gradients = 0
        self.trained = self.model
        if self.plan.compile:
            self.trained = cast(nn.Module, torch.compile(self.model))

        self.done = 0
        self.window: list[Tensor] = []
        self.loss_curve: list[tuple[int, float]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.earlier_seconds = 0.0
        self.earlier_peak = 0
        self.kept: dict[str, str] = {}  # what the optimizer kept on itself after its first steps
        self.marks: Marks | None = None  # of its state after the first step, unless the registry has it

    def run(self, progress: Progress, checkpoint: Checkpoint | None) -> Literal["finished", "diverged"]:
        """Train to the last step, or to the first loss that is not finite.

        Args:
            progress: called after each window of steps.
            checkpoint: the checkpoint that is written between steps; None for none.

        Returns:
            "finished", or "diverged" if a loss or a metric is not finite.
        """
        evaluate_after = self.steps_of_evaluations()
        self.clock.start()
        while True:
            if self.done in evaluate_after and self.done > self.last_evaluated():
                metrics = self.evaluate(self.plan.selection)
                self.evaluations.append({"step": self.done, "val": metrics})
            if self.done == self.plan.steps:
                return "finished" if self.evaluations_are_finite() else "diverged"
            self.done += 1
            logged = self.done % self.plan.log_every == 0 or self.done == self.plan.steps
            loss = self.train_one_step(self.done, sampled=logged and self.watched)
            if not self.shocks.of(self.done).spoils_loss:
                self.window.append(loss)
            if self.spec.stage == "timing" and self.done == UNTIMED_STEPS:
                self.clock = clock(self.device)
            if self.watched and self.done == 1:
                if facts_of(self.spec.optimizer.factory) is None:
                    self.marks = marks(self.optimizer)
                self.clock.lap("log")
            if logged and self.window and not self.log(progress):
                return "diverged"
            if checkpoint:
                if self.done <= FIRST_STEPS:
                    self.kept = self.unsaved()
                checkpoint.between_steps(self.state_dict, self.missing_in_checkpoint)
                self.clock.lap("log")

    def steps_of_evaluations(self) -> set[int]:
        """The steps after which the model is evaluated: evenly, and at the end."""
        count = self.plan.evaluations
        return {round(self.plan.steps * number / count) for number in range(1, count + 1)}

    def last_evaluated(self) -> int:
        """The step of the last evaluation; 0 before the first."""
        if not self.evaluations:
            return 0
        step: int = self.evaluations[-1]["step"]
        return step

    def evaluations_are_finite(self) -> bool:
        """Whether every metric of every evaluation is a finite number."""
        return all(math.isfinite(value) for evaluation in self.evaluations for value in evaluation["val"].values())

    def missing_in_checkpoint(self) -> str:
        """The reason why a checkpoint would be incomplete: changed values on the optimizer; empty if there are none."""
        return changed(self.kept, self.unsaved())

    def train_one_step(self, step: int = 1, sampled: bool = False) -> Tensor:
        """Take a step of the training.

        Args:
            step: the number of the step, from 1.
            sampled: whether to measure the path length of this step.

        Returns:
            The loss, on the device.
        """
        self.needs.switch("train")
        shock = self.shocks.of(step)
        batch = next(self.batches)
        examples = shock.examples(self.arena.examples(batch, self.noise))
        shock_state = shock.generator.get_state()
        self.clock.lap("data")

        def gradients() -> Tensor:
            """Compute the gradients; returns the loss."""
            with self.autocast(), self.needs.kernels():
                loss = self.arena.loss_in_step(step, self.trained, examples)
            self.gradients += 1
            self.clock.lap("forward")
            shock.loss(loss).backward(create_graph=self.needs.create_graph)
            self.clock.lap("backward")
            return loss

        def clip() -> Tensor | bool:
            """Disturb and clip the gradients; returns whether they were clipped."""
            shock.gradients(self.params)
            if self.plan.clip_norm == 0:
                return False
            norm = nn.utils.clip_grad_norm_(self.params, self.plan.clip_norm)
            return norm > self.plan.clip_norm

        def closure(clipped: bool = True) -> Tensor:
            """Loss and gradients at the current weights, with the noise and the shock of the first ones."""
            shock.generator.set_state(shock_state)
            self.optimizer.zero_grad()
            loss = gradients()
            if clipped:
                clip()
            return loss.detach()

        loss = gradients()
        if sampled:
            self.path_length.begin()
            self.clock.lap("log")
        self.clipped += clip()
        self.needs.step(closure)
        self.schedule.step()
        self.clock.lap("step")
        if sampled:
            self.path_length.end(step)
            self.clock.lap("log")
        return loss.detach()

    def log(self, progress: Progress) -> bool:
        """Record the mean loss of a window of steps, and begin a new window. Returns whether the mean is finite."""
        mean = torch.stack(self.window).mean().item()
        self.window.clear()
        if not math.isfinite(mean):
            return False
        self.mechanism.read(self.done)
        self.clock.lap("log")
        self.clock.read()
        self.loss_curve.append((self.done, mean))
        progress(self.done, mean)
        return True

    def evaluate(self, split: str) -> dict[str, float]:
        """Every metric of a split, at the optimizer's evaluation weights."""
        self.needs.switch("eval")
        with self.autocast():
            metrics = evaluate(self.arena, self.trained, self.data, split, self.plan.evaluation_batch_size)
        self.clock.lap("eval")
        self.clock.read()
        return metrics

    def autocast(self) -> torch.autocast:
        """The context of the forward pass, by the precision of the training."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.plan.precision == "bfloat16")

    def timed_step(self, scale: float = 1.0) -> float:
        """Take one step, and measure its seconds of work, see `fairbench.training.phase_timer.work_seconds`.

        Args:
            scale: a factor for all seconds except those of the optimizer's step.
        """
        with one_thread():
            before = self.clock.seconds["step"]
            began = work_seconds(self.device)
            self.train_one_step().item()
        seconds = work_seconds(self.device) - began
        optimizer_seconds = self.clock.seconds["step"] - before
        return seconds + (scale - 1) * max(seconds - optimizer_seconds, 0.0)

    def seconds(self) -> float:
        """The seconds of the training, summed over all processes in which it ran."""
        return self.earlier_seconds + time.perf_counter() - self.started

    def peak(self) -> int:
        """The peak of memory in bytes, over all processes in which the training ran."""
        return max(self.earlier_peak, peak_memory(self.device))

    def state_dict(self) -> dict[str, Any]:
        """The state after the last step, as plain values and tensors. This waits for the device."""
        self.clock.read()
        return {
            **self.numeric_state(),
            **{name: getattr(self, name) for name in PROGRESS},
            "clock": self.clock.seconds,
            "seconds": self.seconds(),
            "peak": self.peak(),
        }

    def unsaved(self) -> dict[str, str]:
        """The values on the optimizer that `numeric_state` leaves out, see `fairbench.training.unsaved`."""
        watch = self.mechanism.watch
        parts_of_watch = getattr(watch, "__dict__", {}).values()  # the state of the watch contains them
        saved = [*self.model.parameters(), *self.model.buffers(), watch, *parts_of_watch]
        return unsaved(self.optimizer, saved)

    def numeric_state(self) -> dict[str, Any]:
        """The part of the state that is the same in every run of the trial."""
        return {
            **{name: getattr(self, name).state_dict() for name in PARTS},
            "optimizer": optimizer_state(self.optimizer),
            "noise": self.noise.get_state(),
            "clipped": self.clipped,
            "gradients": self.gradients,
            "generators": generator_states(self.device),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of another trainer of the same trial. This trainer has taken no step yet."""
        self.load_numeric_state(state)
        self.clock.seconds = state["clock"]
        for name in PROGRESS:
            setattr(self, name, state[name])
        self.earlier_seconds = state["seconds"]
        self.earlier_peak = state["peak"]

    def load_numeric_state(self, state: dict[str, Any]) -> None:
        """Load a result of `numeric_state`."""
        for name in PARTS:
            getattr(self, name).load_state_dict(state[name])
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.noise.set_state(state["noise"].cpu())
        self.clipped = state["clipped"]
        self.gradients = state["gradients"]
        set_generator_states(state["generators"], self.device)
