"""One trial: a pure function of its spec that returns a record."""

import hashlib
import math
from contextlib import nullcontext
from typing import Literal

from fairbench.common.terminal import say
from fairbench.study.record import Details, Hashes, Result, Seconds, Series, TrialCost, WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.determinism import same_order
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.digests import weights_hash
from fairbench.training.environment import environment, reset_peak_memory
from fairbench.training.trainer import UNTIMED_STEPS, Progress, Trainer
from fairbench.training.unused import unused

HERE = DeviceSlot()


def trial(
    spec: TrialSpec,
    slot: DeviceSlot = HERE,
    progress: Progress = lambda step, loss: None,
    checkpoint: Checkpoint | None = None,
) -> WholeRecord:
    """Train one model and measure it, from its checkpoint if there is one; returns a record that finished or diverged.

    The spec determines every number, and none depends on the slot. `progress` is called after each window of steps.
    """
    with same_order(spec.training.deterministic, slot.kind), checkpoint.on_request() if checkpoint else nullcontext():
        trainer = Trainer(spec, slot)
        if checkpoint and (state := checkpoint.read()):
            try:
                trainer.load_state_dict(state)
            except Exception as error:  # an optimizer may raise anything, and leaves the trainer half loaded
                say(f"the trial restarts; its checkpoint cannot be loaded: {type(error).__name__}: {error}")
                trainer = Trainer(spec, slot)
            del state  # or it would count in the peak
            reset_peak_memory(trainer.device)
        return record(trainer, trainer.run(progress, checkpoint))


def record(trainer: Trainer, status: Literal["finished", "diverged"]) -> WholeRecord:
    """The record of a training that has ended; the test split is only read at the end of a final trial."""
    spec, final = trainer.spec, None
    trainer.needs.switch("eval")
    if status == "finished":
        final = {"val": trainer.evaluations[-1]["val"]}
        if spec.stage == "final":
            final["test"] = trainer.evaluate("test")
            if not all(map(math.isfinite, final["test"].values())):
                status, final = "diverged", None
    result = Result(
        steps=trainer.done,
        final=final,
        hashes=Hashes(
            initial_weights=trainer.initial_weights,
            batches=trainer.batches.hash,
            noise=hashlib.sha256(trainer.noise.get_state().numpy().tobytes()).hexdigest(),
            final_weights=weights_hash(trainer.model),
        ),
        parameters=sum(p.numel() for p in trainer.params),
        clip_rate=trainer.clipped.item() / trainer.done,
        gradients_per_step=trainer.gradients / trainer.done,
        path_length=trainer.path_length.length() if trainer.watched else None,
    )
    cost = TrialCost(
        seconds=Seconds(**trainer.clock.seconds, total=trainer.seconds()),
        steps=trainer.done - (UNTIMED_STEPS if spec.stage == "timing" else 0),
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


def details(trainer: Trainer) -> Details:
    """The long parts of the record of a training."""
    steps, losses = zip(*trainer.loss_curve, strict=True) if trainer.loss_curve else ((), ())
    evaluations = [e for e in trainer.evaluations if all(map(math.isfinite, e["val"].values()))]
    metrics = {name: [e["val"][name] for e in evaluations] for name in evaluations[0]["val"]} if evaluations else {}
    return Details(
        loss_curve=Series(steps, {"loss": losses}),
        evaluations=Series([e["step"] for e in evaluations], metrics),
        mechanism=trainer.mechanism.recorded(),
        unused=unused(trainer.optimizer, trainer.needs.methods, trainer.marks, trainer.needs.steps),
    )
