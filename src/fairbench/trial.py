"""One training run: a pure function of its spec."""

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._dynamo  # torch loads it in an optimizer's first step: not on the stopwatch's time
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from fairbench.arenas import Arena, load_arena
from fairbench.data.batches import Batches
from fairbench.data.sources import Split
from fairbench.environment import environment, peak_memory, reset_peak_memory
from fairbench.optimizers import build_optimizer
from fairbench.spec import TrainingSpec, TrialSpec
from psilogic import PsiLogic, monitor

Progress = Callable[[int, float], None]
"""Told now and then how many steps are done and what the training loss is."""

PHASES = ("data", "forward", "backward", "step", "eval")


class Stopwatch:
    """Seconds spent in each phase; on a GPU a phase ends when its work is done.

    Args:
        device: the device that works.
    """

    def __init__(self, device: torch.device) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._on_gpu = device.type == "cuda"
        self._mark = time.perf_counter()

    def start(self) -> None:
        """Begin to count now."""
        self._mark = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Give the time since the last mark to a phase."""
        if self._on_gpu:
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.seconds[phase] += now - self._mark
        self._mark = now


def lr_factor(step: int, training: TrainingSpec) -> float:
    """Linear warm-up to 1, then a cosine to 0: what the learning rate is multiplied by in step 0, 1, ..."""
    if step < training.warmup_steps:
        return (step + 1) / training.warmup_steps
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


def evaluate(arena: Arena, model: nn.Module, split: Split) -> dict[str, float]:
    """Every metric of a split, the model in evaluation mode."""
    model.eval()
    with torch.no_grad():
        metrics = arena.evaluate(model, split)
    model.train()
    return metrics


def evaluation_steps(training: TrainingSpec) -> set[int]:
    """After which steps the validation split is evaluated: evenly spaced, the last one included."""
    return {round(training.steps * (i + 1) / training.evaluations) for i in range(training.evaluations)}


def trial(spec: TrialSpec, progress: Progress = lambda step, loss: None) -> dict[str, Any]:
    """Train one model and measure it.

    Args:
        spec: everything that determines the numbers.
        progress: called after each window of steps.

    Returns:
        The record: `spec`, `status` ("finished" or "diverged"), `result` (the same in every process on the
        same kind of machine), `cost` (not the same twice) and `environment`.
    """
    with one_thread():
        return Training(spec).run(progress)


class Training:
    """The training of a trial, from its first step on."""

    def __init__(self, spec: TrialSpec) -> None:
        self.spec, self.training = spec, spec.training
        self.device = torch.device(spec.training.device)
        reset_peak_memory(self.device)
        self.started = time.perf_counter()
        self.clock = Stopwatch(self.device)
        self.arena = load_arena(spec.arena.name)
        self.data = self.arena.load_data(**spec.arena.data).to(self.device)

        torch.manual_seed(spec.seed)
        self.model = self.arena.build_model(self.data, **spec.arena.model)
        self.initial_weights = weights_hash(self.model)
        self.model.to(self.device).train()
        self.params = [p for p in self.model.parameters() if p.requires_grad]

        self.batches = Batches(self.data.train, spec.arena.batch_size, spec.seed)
        self.noise = torch.Generator().manual_seed(spec.seed)
        self.optimizer = build_optimizer(spec.optimizer, self.params)
        self.schedule = LambdaLR(self.optimizer, lambda step: lr_factor(step, self.training))
        self.monitor = monitor(self.optimizer) if isinstance(self.optimizer, PsiLogic) else None
        self.clipped = torch.zeros((), device=self.device)
        self.loss_curve: list[tuple[int, float]] = []
        self.evaluations: list[dict[str, Any]] = []

    def run(self, progress: Progress) -> dict[str, Any]:
        """The training loop, to the end or to the first loss that is not finite."""
        window: list[Tensor] = []
        evaluate_after = evaluation_steps(self.training)
        self.clock.start()
        for step in range(1, self.training.steps + 1):
            window.append(self.train_step())
            if step % self.training.log_every == 0 or step == self.training.steps:
                loss = torch.stack(window).mean().item()
                window.clear()
                if not math.isfinite(loss):
                    return self.record("diverged", step)
                self.loss_curve.append((step, loss))
                progress(step, loss)
            if step in evaluate_after:
                metrics = evaluate(self.arena, self.model, self.data.val)
                self.evaluations.append({"step": step, "val": metrics})
                self.clock.lap("eval")
        finite = all(math.isfinite(value) for e in self.evaluations for value in e["val"].values())
        return self.record("finished" if finite else "diverged", self.training.steps)

    def train_step(self) -> Tensor:
        """One step; returns the loss, still on the device."""
        batch = self.batches.next()
        self.clock.lap("data")
        loss = self.arena.loss(self.model, batch, self.noise)
        self.clock.lap("forward")
        loss.backward()
        self.clock.lap("backward")
        if self.training.clip_norm > 0:
            norm = nn.utils.clip_grad_norm_(self.params, self.training.clip_norm)
            self.clipped += norm > self.training.clip_norm
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()
        self.clock.lap("step")
        return loss.detach()

    def timed_step(self) -> float:
        """One step; returns its seconds."""
        with one_thread():
            began = time.perf_counter()
            self.train_step()
        return time.perf_counter() - began

    def record(self, status: str, steps: int) -> dict[str, Any]:
        """What the trial leaves behind; the test split is only read at the end of a final trial."""
        final = None
        if status == "finished":
            final = {"val": self.evaluations[-1]["val"]}
            if self.spec.stage == "final":
                final["test"] = evaluate(self.arena, self.model, self.data.test)
                self.clock.lap("eval")
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
                "batches": self.batches.hash(),
                "noise": hashlib.sha256(self.noise.get_state().numpy().tobytes()).hexdigest(),
                "final_weights": weights_hash(self.model),
            },
            "parameters": sum(p.numel() for p in self.params),
            "clip_rate": self.clipped.item() / steps,
            "chaos": self.monitor.totals() if self.monitor else None,
        }
        cost = {
            "seconds": {**self.clock.seconds, "total": time.perf_counter() - self.started},
            "peak_memory_bytes": peak_memory(self.device),
        }
        return {
            "id": self.spec.id,
            "spec": self.spec.as_stored,
            "status": status,
            "result": result,
            "error": None,
            "cost": cost,
            "environment": environment(str(self.device)),
        }
