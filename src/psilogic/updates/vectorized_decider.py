"""The decisions of a step by torch's operations on vectors over the tensors, on any device: the ground truth."""

import math
from typing import Any

import torch
from torch import Tensor

from psilogic.decision import Chaos, by_clocks, gate, observe, t_warm
from psilogic.decision import decide as decide_for
from psilogic.gradients import Processing, Rescaling, owned_part, signals
from psilogic.tensors.device_tables import upload
from psilogic.tensors.state import CLOCKS, memory_names
from psilogic.updates.foreach import copied
from psilogic.updates.types import PreStep, Step, UpdatePlan, Work


def pre_step(work: Work) -> PreStep:
    """The part of a step of these tensors that is known before their gradients are read."""
    bucket, group = work.owned, work.owned.hyperparameters()
    scalars = bucket.cache.scalars.read(work.states, (*CLOCKS, *memory_names(group)))
    step, start, *memory = scalars.values()
    steps = step + 1
    t = steps.to(bucket.vector_dtype)
    if bucket.device.type != "cpu":
        start = upload("chaos_start", start, t.device)
        memory = copied([upload(name, scalars[name], bucket.device) for name in [*scalars][2:]], bucket.vector_dtype)
    t_detector, memory = t - start, [x.to(bucket.vector_dtype) for x in memory]
    lr, weight_decay = group["lr"], group["weight_decay"]
    if isinstance(lr, Tensor) or isinstance(weight_decay, Tensor):
        t = upload("step", t, bucket.device)
    delta = lr * weight_decay
    decay = torch.ones_like(t) * delta if isinstance(delta, Tensor) else torch.full_like(t, delta)
    quiet = Step(t, decay, None, lr, weight_decay, group["betas"], group["eps"])
    return PreStep(group, scalars, steps, t_detector, Chaos(*memory, *[None] * (3 - len(memory))), quiet)


def decide(
    works: list[Work],
    pre_steps: list[PreStep],
    measured: list[Any],
    rescaling: Rescaling,
    found_inf: Tensor | None,
    observed: bool,
) -> list[UpdatePlan]:
    """The plans of all buckets.

    Args:
        works: the tensors of the step.
        pre_steps: the results of `pre_step`.
        measured: those of the executions' `begin`.
        rescaling: the common factor of all gradients.
        found_inf: if it is above 0, all scalars stay as they are.
        observed: whether something observes the decisions.
    """
    factor = rescaling.factor(pre_steps[0].memory.fast)
    if factor is not None and works[0].bucket.on_host and factor == 1:
        factor = None  # reading it is free there
    buckets = [work.bucket for work in works]
    processings = [x.to_processing(bucket, factor) for x, bucket in zip(measured, buckets, strict=True)]
    every_gn = signals(buckets, processings)
    return [
        _plan(work, of_work, processing, gn, found_inf, observed)
        for work, of_work, processing, gn in zip(works, pre_steps, processings, every_gn, strict=True)
    ]


def _plan(
    work: Work, pre_step: PreStep, processing: Processing, gn: Tensor, found_inf: Tensor | None, observed: bool
) -> UpdatePlan:
    """Decide for the tensors of one bucket."""
    if work.owned is not work.bucket:
        processing, gn = owned_part(work.bucket, processing, gn)
    bucket, group, step, decision = work.owned, pre_step.group, pre_step.quiet, None
    quiet = bucket.on_host and not observed and group["quantum_decay"] == 0
    if quiet:  # if nothing fires, its memory is all that `decide` would change
        memory = observe(gn, gn < math.inf, pre_step.memory, group["eps"])
        quiet = not likely_to_fire(group, memory, pre_step.t_detector).any()
    if not quiet:
        w, schedule = by_clocks(group, step.t, pre_step.t_detector)
        if isinstance(schedule, Tensor):
            schedule = upload("step", schedule, bucket.device)
        decision = decide_for(group, gn, pre_step.memory, upload("step", w, bucket.device), schedule)
        memory, step = decision.memory, step._replace(decay=decision.decay, quantum_rate=decision.quantum_rate)
    before = pre_step.scalars
    kept = [x for x in memory if x is not None]
    scalars = dict(zip(("step", *memory_names(group)), (pre_step.steps, *kept), strict=True))
    if found_inf is not None:
        for name, values in scalars.items():
            overflow = found_inf.to(values.device, non_blocking=True) > 0
            scalars[name] = torch.where(overflow, before[name], values)
    return UpdatePlan(processing.mean, processing.scale, step, scalars, decision)


def likely_to_fire(group: dict[str, Any], memory: Chaos, t_detector: Tensor) -> Tensor:
    """Which tensors are likely to fire in a step, given the memory before it, shape (N,).

    The fast EMA, once above the gate, needs several steps to fall below it. With the memory after the step, the result
    is exact: the tensors that fire.
    """
    return gate(group, memory) & (t_detector > t_warm(group))
