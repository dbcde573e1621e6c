"""One training run: a pure function of its spec."""

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from fairbench.study.trial_spec import TrainingSpec, TrialSpec
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.determinism import one_thread, same_order, weights_hash
from fairbench.training.environment import environment, peak_memory, reset_peak_memory
from fairbench.training.phase_timer import clock
from fairbench.training.place import Place
from fairbench.training.trainer import Training

Progress = Callable[[int, float], None]
"""Told now and then how many steps are done and what the training loss is."""
HERE = Place()
UNTIMED_STEPS = 10
"""The first steps of a timing trial: they start the state, compile, and fill caches."""


def evaluation_steps(training: TrainingSpec) -> set[int]:
    """After which steps the validation split is evaluated: evenly spaced, the last one included."""
    return {round(training.steps * (i + 1) / training.evaluations) for i in range(training.evaluations)}


def trial(
    spec: TrialSpec,
    place: Place = HERE,
    progress: Progress = lambda step, loss: None,
    checkpoint: Checkpoint | None = None,
) -> dict[str, Any]:
    """Train one model and measure it.

    Args:
        spec: everything that determines the numbers.
        place: where it runs, which no number depends on.
        progress: called after each window of steps.
        checkpoint: what it goes on from, and what keeps what it has done; None begins anew and keeps nothing.

    Returns:
        The record: `spec`, `status` ("finished" or "diverged"), `result` (the same in every process on the
        same kind of machine), `cost` (not the same twice) and `environment`.

    Raises:
        Paused: somebody asked the checkpoint for it.
    """
    deterministic = spec.training.deterministic and place.kind == "cuda"
    with one_thread(), same_order(deterministic), checkpoint.on_request() if checkpoint else nullcontext():
        run = Run(spec, place)
        if checkpoint and (state := checkpoint.read()):
            try:
                run.load_state_dict(state)
            except Exception as error:  # an optimizer may raise anything, and what it has begun is spoilt
                print(f"the trial begins anew, it cannot go on from its checkpoint: {type(error).__name__}: {error}")
                run = Run(spec, place)
            del state  # it is no part of the peak
            reset_peak_memory(run.device)
        return run.to_the_end(progress, checkpoint)


class Run:
    """A training on its way from the first step to the last one, with what is measured of it.

    Args:
        spec: the trial.
        place: where it runs.
    """

    def __init__(self, spec: TrialSpec, place: Place) -> None:
        self.started = time.perf_counter()
        self.spec, self.plan, self.place = spec, spec.training, place
        self.training = Training(spec, place)
        self.device = self.training.device
        self.done = 0
        self.window: list[Tensor] = []
        self.loss_curve: list[tuple[int, float]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.earlier_seconds, self.earlier_peak = 0.0, 0

    def to_the_end(self, progress: Progress, checkpoint: Checkpoint | None) -> dict[str, Any]:
        """The training loop, to the last step or to the first loss that is not finite; returns the record."""
        evaluate_after = evaluation_steps(self.plan)
        self.training.clock.start()
        while True:
            if self.done and self.done in evaluate_after and self.evaluated() < self.done:
                val = self.training.evaluate(self.plan.selection)
                self.evaluations.append({"step": self.done, "val": val})
            if self.done == self.plan.steps:
                finite = all(math.isfinite(value) for e in self.evaluations for value in e["val"].values())
                return self.record("finished" if finite else "diverged")
            if not self.go_on(progress):
                return self.record("diverged")
            if checkpoint:
                checkpoint.between_steps(self.state_dict)
                self.training.clock.lap("log")

    def evaluated(self) -> int:
        """After which step the last evaluation was."""
        return int(self.evaluations[-1]["step"]) if self.evaluations else 0

    def go_on(self, progress: Progress) -> bool:
        """The next step; returns whether the losses are finite, as far as is known."""
        self.done += 1
        training, logged = self.training, self.done % self.plan.log_every == 0 or self.done == self.plan.steps
        loss = training.train_step(self.done, sampled=logged and training.watched)
        self.window += [] if training.shocks.of(self.done).spoils_loss else [loss]
        if self.spec.stage == "timing" and self.done == UNTIMED_STEPS:
            training.clock = clock(self.device)
        if logged and self.window:
            mean = torch.stack(self.window).mean().item()
            self.window.clear()
            if not math.isfinite(mean):
                return False
            training.mechanism.read(self.done)
            training.clock.lap("log")
            training.clock.read()
            self.loss_curve.append((self.done, mean))
            progress(self.done, mean)
        return True

    def state_dict(self) -> dict[str, Any]:
        """What the run so far has left, plain values and tensors; this waits for the device."""
        self.training.clock.read()
        return {
            "training": self.training.state_dict(),
            "done": self.done,
            "window": self.window,
            "loss_curve": self.loss_curve,
            "evaluations": self.evaluations,
            "clock": self.training.clock.state_dict(),
            "seconds": self.seconds(),
            "peak": self.peak(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state_dict` found another run of the same trial; this one has taken no step."""
        self.training.load_state_dict(state["training"])
        self.training.clock.load_state_dict(state["clock"])
        self.done, self.window = state["done"], state["window"]
        self.loss_curve, self.evaluations = state["loss_curve"], state["evaluations"]
        self.earlier_seconds, self.earlier_peak = state["seconds"], state["peak"]

    def seconds(self) -> float:
        """How long it has taken, in all processes that it ran in."""
        return self.earlier_seconds + time.perf_counter() - self.started

    def peak(self) -> int:
        """Bytes at most, of all processes that it ran in."""
        return max(self.earlier_peak, peak_memory(self.device))

    def record(self, status: str) -> dict[str, Any]:
        """What the trial leaves behind; the test split is only read at the end of a final trial."""
        training, steps, final = self.training, self.done, None
        training.contract.tell(training.optimizer, "eval")
        if status == "finished":
            final = {"val": self.evaluations[-1]["val"]}
            if self.spec.stage == "final":
                final["test"] = training.evaluate("test")
                if not all(map(math.isfinite, final["test"].values())):
                    status, final = "diverged", None
        evaluations = [e for e in self.evaluations if all(map(math.isfinite, e["val"].values()))]
        result = {
            "steps": steps,
            "final": final,
            "evaluations": evaluations,
            "loss_curve": [list(point) for point in self.loss_curve],
            "hashes": {
                "initial_weights": training.initial_weights,
                "batches": training.batches.hash,
                "noise": hashlib.sha256(training.noise.get_state().numpy().tobytes()).hexdigest(),
                "final_weights": weights_hash(training.model),
            },
            "parameters": sum(p.numel() for p in training.params),
            "clip_rate": training.clipped.item() / steps,
            "way": training.way.length() if training.watched else None,
            "mechanism": training.mechanism.to_json(),
        }
        cost = {
            "seconds": {**training.clock.seconds, "total": self.seconds()},
            "steps": steps - (UNTIMED_STEPS if self.spec.stage == "timing" else 0),
            "peak_memory_bytes": self.peak(),
            "alone": self.place.alone,
            "data_on": training.data.train.inputs.device.type,
        }
        return {
            "id": self.spec.id,
            "spec": self.spec.as_stored,
            "status": status,
            "result": result,
            "error": None,
            "cost": cost,
            "environment": {**environment(str(self.device)), "data": training.data.origin},
        }
