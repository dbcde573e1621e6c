"""One trial: a pure function of its spec that returns a record."""

import hashlib
import math
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Literal

from fairbench.common.terminal import say
from fairbench.study.record import Details, Hashes, Result, Seconds, Series, TrialCost, WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.determinism import same_order
from fairbench.training.device_memory import reset_peak_memory
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.digests import weights_hash
from fairbench.training.environment import environment
from fairbench.training.trainer import UNTIMED_STEPS, Progress, Trainer
from fairbench.training.unused import unused

HERE = DeviceSlot()


def trial(
    spec: TrialSpec,
    slot: DeviceSlot = HERE,
    progress: Progress = lambda step, loss: None,
    checkpoint: Checkpoint | None = None,
) -> WholeRecord:
    """Train the model of a trial and measure it. The spec determines every number; the slot affects none.

    Args:
        spec: the trial.
        slot: where it runs.
        progress: called after each window of steps.
        checkpoint: the checkpoint from which the trial resumes and that is written between steps; None for none.

    Returns:
        The record of a trial that has finished or diverged.
    """
    on_request = checkpoint.on_request() if checkpoint else nullcontext()
    with same_order(spec.training.deterministic, slot.kind), on_request:
        trainer = _trainer(spec, slot, checkpoint)
        status = trainer.run(progress, checkpoint)
        return record(trainer, status)


def _trainer(spec: TrialSpec, slot: DeviceSlot, checkpoint: Checkpoint | None) -> Trainer:
    """A trainer at the checkpoint. Without a checkpoint that can be loaded, a trainer at its first step."""
    trainer = Trainer(spec, slot)
    state = checkpoint.read() if checkpoint else None
    if not state:
        return trainer
    try:
        trainer.load_state_dict(state)
    except Exception as error:  # an optimizer may raise anything, and leaves the trainer half loaded
        say(f"the trial restarts; its checkpoint cannot be loaded: {type(error).__name__}: {error}")
        trainer = Trainer(spec, slot)
    del state  # otherwise it would count in the peak of memory
    reset_peak_memory(trainer.device)
    return trainer


def record(trainer: Trainer, status: Literal["finished", "diverged"]) -> WholeRecord:
    """The record of a training that has ended. The test split is only evaluated at the end of a final trial."""
    spec = trainer.spec
    final = None
    trainer.needs.switch("eval")
    if status == "finished":
        final = {"val": trainer.evaluations[-1]["val"]}
        if spec.stage == "final":
            final["test"] = trainer.evaluate("test")
            if not _is_finite(final["test"]):
                status = "diverged"
                final = None
    untimed = UNTIMED_STEPS if spec.stage == "timing" else 0
    result = Result(
        steps=trainer.done,
        final=final,
        hashes=_hashes(trainer),
        parameters=sum(p.numel() for p in trainer.params),
        clip_rate=trainer.clipped.item() / trainer.done,
        gradients_per_step=trainer.gradients / trainer.done,
        path_length=trainer.path_length.length() if trainer.watched else None,
    )
    cost = TrialCost(
        seconds=Seconds(**trainer.clock.seconds, total=trainer.seconds()),
        steps=trainer.done - untimed,
        peak_memory_bytes=trainer.peak(),
        alone=trainer.slot.alone,
        data_on=trainer.data.train.inputs.device.type,
    )
    return WholeRecord(
        id=spec.id,
        stage=spec.stage,
        status=status,
        result=result,
        cost=cost,
        environment={**environment(str(trainer.device)), "data": trainer.data.origin},
        details=details(trainer),
    )


def _hashes(trainer: Trainer) -> Hashes:
    """The hashes of what a training began with, read and ended with."""
    noise = trainer.noise.get_state().numpy().tobytes()
    return Hashes(
        initial_weights=trainer.initial_weights,
        batches=trainer.batches.hash,
        noise=hashlib.sha256(noise).hexdigest(),
        final_weights=weights_hash(trainer.model),
    )


def details(trainer: Trainer) -> Details:
    """The long parts of the record of a training."""
    return Details(
        loss_curve=_losses(trainer),
        evaluations=_evaluations(trainer),
        mechanism=trainer.mechanism.recorded(),
        unused=unused(trainer.optimizer, trainer.needs.methods, trainer.marks, trainer.needs.steps),
    )


def _losses(trainer: Trainer) -> Series:
    """The mean training loss of each window of steps."""
    steps = tuple(step for step, _ in trainer.loss_curve)
    losses = tuple(loss for _, loss in trainer.loss_curve)
    return Series(steps, {"loss": losses})


def _evaluations(trainer: Trainer) -> Series:
    """The metrics of the evaluations. An evaluation with a metric that is not finite is left out."""
    steps = []
    metrics: dict[str, list[float]] = {}
    for evaluation in trainer.evaluations:
        if _is_finite(evaluation["val"]):
            steps.append(evaluation["step"])
            for name, value in evaluation["val"].items():
                metrics.setdefault(name, []).append(value)
    return Series(steps, metrics)


def _is_finite(metrics: Mapping[str, float]) -> bool:
    """Whether all metrics are finite numbers."""
    return all(map(math.isfinite, metrics.values()))
