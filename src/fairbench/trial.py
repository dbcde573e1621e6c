"""One training run: a pure function of its spec."""

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
import torch._dynamo  # torch loads it in an optimizer's first step: not on the clock's time
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from fairbench.arenas import Arena, load_arena
from fairbench.arenas.contract import declared_data
from fairbench.clocks import clock
from fairbench.contract import Contract
from fairbench.data.batches import Batches
from fairbench.data.stored import Data
from fairbench.environment import environment, peak_memory, reset_peak_memory
from fairbench.executors import Place
from fairbench.mechanism import MechanismLog, Way
from fairbench.optimizers import build_optimizer
from fairbench.shocks.kinds import Shock, Shocks
from fairbench.spec import TrainingSpec, TrialSpec

Progress = Callable[[int, float], None]
"""Told now and then how many steps are done and what the training loss is."""
HERE = Place()
UNTIMED_STEPS = 10
"""The first steps of a timing trial: they start the state, compile, and fill caches."""
CHUNK = 256
"""Examples of an evaluation that share a stream of random numbers, however many a model gets at a time."""


def lr_factor(step: int, training: TrainingSpec, constant: bool = False) -> float:
    """What the learning rate is multiplied by in step 0, 1, ...: a linear warm-up to 1, then a cosine to 0, or none."""
    if step < training.warmup_steps:
        return (step + 1) / training.warmup_steps
    if constant:
        return 1.0
    decay_steps = max(training.steps - training.warmup_steps, 1)
    return 0.5 * (1 + math.cos(math.pi * min((step - training.warmup_steps) / decay_steps, 1.0)))


def weights_hash(model: nn.Module) -> str:
    """sha256 of every parameter and buffer, bit by bit."""
    sha = hashlib.sha256()
    for name, value in model.state_dict().items():
        sha.update(name.encode())
        sha.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for all arithmetic: sums are then added in the same order wherever the trial runs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def evaluate(arena: Arena, model: nn.Module, data: Data, name: str, batch_size: int) -> dict[str, float]:
    """Every metric of a split, the model in evaluation mode; the batch size changes no more than the last digits.

    Args:
        arena: the arena.
        model: the model.
        data: the data.
        name: which of its splits.
        batch_size: how many the model gets at a time.
    """
    device, split = next(model.parameters()).device, data.splits[name]
    sums: dict[str, Tensor] = {}
    model.eval()
    with torch.no_grad():
        for start in range(0, len(split), CHUNK):
            chunk = data.read(split[start : start + CHUNK].to(device), None)
            examples = arena.examples(chunk, torch.Generator(device).manual_seed(start // CHUNK))
            for parts in zip(*(part.split(batch_size) for part in examples), strict=True):
                for name, values in arena.scores(model, *parts).items():
                    sums[name] = sums.get(name, 0) + values.double().sum()
    model.train()
    means = dict(zip(sums, (torch.stack([*sums.values()]) / len(split)).tolist(), strict=True))
    return {**means, **arena.derived(means, data)}


def evaluation_steps(training: TrainingSpec) -> set[int]:
    """After which steps the validation split is evaluated: evenly spaced, the last one included."""
    return {round(training.steps * (i + 1) / training.evaluations) for i in range(training.evaluations)}


@contextmanager
def same_order(deterministic: bool) -> Iterator[None]:
    """Have a GPU add in the same order every time, where torch knows how; a CPU does so anyway."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it would write everything once more
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def trial(spec: TrialSpec, place: Place = HERE, progress: Progress = lambda step, loss: None) -> dict[str, Any]:
    """Train one model and measure it.

    Args:
        spec: everything that determines the numbers.
        place: where it runs, which no number depends on.
        progress: called after each window of steps.

    Returns:
        The record: `spec`, `status` ("finished" or "diverged"), `result` (the same in every process on the
        same kind of machine), `cost` (not the same twice) and `environment`.
    """
    with one_thread(), same_order(spec.training.deterministic and place.kind == "cuda"):
        return Training(spec, place).run(progress)


class Training:
    """The training of a trial, from its first step on."""

    def __init__(self, spec: TrialSpec, place: Place) -> None:
        self.spec, self.training, self.place = spec, spec.training, place
        self.contract = Contract(spec.optimizer.needs, spec.training)
        self.device = torch.device(place.device)
        reset_peak_memory(self.device)
        self.started = time.perf_counter()
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
        self.loss_curve: list[tuple[int, float]] = []
        self.evaluations: list[dict[str, Any]] = []
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

    def run(self, progress: Progress) -> dict[str, Any]:
        """The training loop, to the end or to the first loss that is not finite."""
        window: list[Tensor] = []
        evaluate_after = evaluation_steps(self.training)
        self.clock.start()
        for step in range(1, self.training.steps + 1):
            logged = step % self.training.log_every == 0 or step == self.training.steps
            loss = self.train_step(step, sampled=logged and self.watched)
            window += [] if self.shocks.of(step).spoils_loss else [loss]
            if self.spec.stage == "timing" and step == UNTIMED_STEPS:
                self.clock = clock(self.device)
            if logged and window:
                mean = torch.stack(window).mean().item()
                window.clear()
                if not math.isfinite(mean):
                    return self.record("diverged", step)
                self.mechanism.read(step)
                self.clock.lap("log")
                self.clock.read()
                self.loss_curve.append((step, mean))
                progress(step, mean)
            if step in evaluate_after:
                self.evaluations.append({"step": step, "val": self.evaluate(self.training.selection)})
        finite = all(math.isfinite(value) for e in self.evaluations for value in e["val"].values())
        return self.record("finished" if finite else "diverged", self.training.steps)

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

    def record(self, status: str, steps: int) -> dict[str, Any]:
        """What the trial leaves behind; the test split is only read at the end of a final trial."""
        self.contract.tell(self.optimizer, "eval")
        final = None
        if status == "finished":
            final = {"val": self.evaluations[-1]["val"]}
            if self.spec.stage == "final":
                final["test"] = self.evaluate("test")
                if not all(map(math.isfinite, final["test"].values())):
                    status, final = "diverged", None
        evaluations = [e for e in self.evaluations if all(map(math.isfinite, e["val"].values()))]
        result = {
            "steps": steps,
            "final": final,
            "evaluations": evaluations,
            "loss_curve": [list(point) for point in self.loss_curve],
            "hashes": {
                "initial_weights": self.initial_weights,
                "batches": self.batches.hash,
                "noise": hashlib.sha256(self.noise.get_state().numpy().tobytes()).hexdigest(),
                "final_weights": weights_hash(self.model),
            },
            "parameters": sum(p.numel() for p in self.params),
            "clip_rate": self.clipped.item() / steps,
            "way": self.way.length() if self.watched else None,
            "mechanism": self.mechanism.to_json(),
        }
        cost = {
            "seconds": {**self.clock.seconds, "total": time.perf_counter() - self.started},
            "steps": steps - (UNTIMED_STEPS if self.spec.stage == "timing" else 0),
            "peak_memory_bytes": peak_memory(self.device),
            "alone": self.place.alone,
            "data_on": self.data.train.inputs.device.type,
        }
        return {
            "id": self.spec.id,
            "spec": self.spec.as_stored,
            "status": status,
            "result": result,
            "error": None,
            "cost": cost,
            "environment": {**environment(str(self.device)), "data": self.data.origin},
        }
