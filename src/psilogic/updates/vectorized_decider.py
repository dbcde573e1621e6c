"""The decisions of a step by torch's operations on vectors over the tensors, on any device: the ground truth."""

from typing import Any

import torch
from torch import Tensor

from psilogic.decision import Chaos, by_clocks, quiet_memory
from psilogic.decision import decide as decide_for
from psilogic.gradients import Processing, Rescaling, owned_part, signals
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.device_tables import upload
from psilogic.tensors.merging import NUMBERS, Group
from psilogic.tensors.state import memory_names
from psilogic.updates.foreach import copied
from psilogic.updates.types import Decider, PreStep, Step, UpdatePlan, Work


def pre_step(work: Work) -> PreStep:
    """The part of a step of these tensors that is known before their gradients are read."""
    bucket, group, scalars = work.owned, _on_device(work.owned), work.owned.cache.scalars
    steps, lr = scalars.read(work.states, "step") + 1, group["lr"]
    t = steps.to(bucket.vector_dtype)
    t_detector = t - upload("chaos_start", scalars.read(work.states, "chaos_start"), t.device)
    memory = [upload(name, scalars.read(work.states, name), bucket.device) for name in memory_names(bucket)]
    memory = copied(memory, bucket.vector_dtype)
    if isinstance(lr, Tensor) and lr.numel() == 1:
        lr = upload("lr", lr.reshape(1).to(t.dtype), bucket.device).reshape(())
    weight_decay = group["weight_decay"]
    if isinstance(weight_decay, Tensor) and weight_decay.numel() == 1:
        weight_decay = weight_decay.reshape(()).to(t.dtype)
    if isinstance(lr, Tensor) or isinstance(weight_decay, Tensor):
        t = upload("step", t, bucket.device)
    delta = lr * weight_decay
    decay = torch.ones_like(t) * delta if isinstance(delta, Tensor) else torch.full_like(t, delta)
    quiet = Step(t, decay, None, lr, weight_decay, group["betas"], group["eps"])
    return PreStep(steps, t_detector, Chaos(*memory, *[None] * (3 - len(memory))), quiet)


def _on_device(bucket: Bucket) -> Group:
    """The hyperparameters; those that are vectors, on the tensors' device."""
    if bucket.device.type == "cpu" or (numbers := bucket.numbers) is None:
        return bucket.group
    return {**bucket.group, **dict(zip(NUMBERS, numbers, strict=True))}


def decide(
    works: list[Work],
    pre_steps: list[PreStep],
    measured: list[Any],
    rescaling: Rescaling,
    found_inf: Tensor | None,
    observed: bool,
) -> list[UpdatePlan]:
    """Decide for every bucket; if `found_inf` is above 0, all scalars stay as they are."""
    factor = rescaling.factor(pre_steps[0].memory.fast)
    if factor is not None and works[0].bucket.on_host and factor == 1:
        factor = None  # reading it is free there
    buckets = [work.bucket for work in works]
    processings = [x.to_processing(bucket, factor) for x, bucket in zip(measured, buckets, strict=True)]
    every_gn = signals(buckets, processings)
    return [
        _plan(work, of_work, *owned_part(work.bucket, processing, gn), found_inf, observed)
        for work, of_work, processing, gn in zip(works, pre_steps, processings, every_gn, strict=True)
    ]


def _plan(
    work: Work, pre_step: PreStep, processing: Processing, gn: Tensor, found_inf: Tensor | None, observed: bool
) -> UpdatePlan:
    """Decide for the tensors of one bucket."""
    bucket, group, step, decision = work.owned, _on_device(work.owned), pre_step.quiet, None
    memory = None
    if bucket.on_host and not observed and group["quantum_decay"] == 0:
        memory = quiet_memory(group, gn, pre_step.memory, pre_step.t_detector)
    if memory is None:
        w, schedule = by_clocks(group, step.t, pre_step.t_detector)
        if isinstance(schedule, Tensor):
            schedule = upload("step", schedule, bucket.device)
        w = upload("step", w, bucket.device)
        decision = decide_for({**group, "lr": step.lr}, gn, pre_step.memory, w, schedule)
        memory, step = decision.memory, step._replace(decay=decision.decay, quantum_rate=decision.quantum_rate)
    kept = [x for x in memory if x is not None]
    scalars = dict(zip(("step", *memory_names(bucket)), (pre_step.steps, *kept), strict=True))
    if found_inf is not None:
        for name, values in scalars.items():
            overflow = found_inf.to(values.device, non_blocking=True) > 0
            scalars[name] = torch.where(overflow, bucket.cache.scalars.read(work.states, name), values)
    return UpdatePlan(processing.mean, processing.scale, step, scalars, decision)


decider = Decider(pre_step, decide)
