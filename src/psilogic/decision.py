"""The decision of the chaos detector: from gradient norms to decay rates, for all tensors of a bucket at once.

`psilogic.reference` has the same for one tensor. Names are the paper's, with its sections; quantities are vectors over
tensors, shape (N,), unless stated otherwise.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from psilogic.gradients import common_factor, pooled_norms, process, take_owned
from psilogic.step import BucketStep, Decision, DetectorState, Scalar, Step, StepInputs
from psilogic.tensors.device_tables import upload
from psilogic.tensors.norms import copied, transformed
from psilogic.tensors.scalars import memory_names, read, scalar_names
from psilogic.warmup import t_warm


def prepare(work: BucketStep) -> None:
    """Note what is known about a step of these tensors without their gradients."""
    bucket = work.owned
    group = bucket.hyperparameters()
    names = memory_names(group)
    scalars = read(work.states, scalar_names(group))
    step_count = scalars["step"] + 1
    t = step_count.to(bucket.vector_dtype)
    work.group = group
    work.scalars_before = scalars
    work.scalars = {"step": step_count}
    work.t_detector = t - upload("chaos_start", scalars["chaos_start"], t.device)
    uploaded = [upload(name, scalars[name], bucket.device) for name in names]
    work.detector = detector_state(copied(uploaded, bucket.vector_dtype))

    lr = group["lr"]
    weight_decay = group["weight_decay"]
    if isinstance(lr, Tensor) or isinstance(weight_decay, Tensor):
        t = upload("step", t, bucket.device)
    delta = lr * weight_decay
    decay = torch.ones_like(t) * delta if isinstance(delta, Tensor) else torch.full_like(t, delta)
    work.step = step_of(group, t, decay)


def detector_state(vectors: list[Tensor]) -> DetectorState:
    """The detector's memory from its vectors, in the order of `memory_names`."""
    reference = vectors[2] if len(vectors) > 2 else None
    return DetectorState(fast=vectors[0], slow=vectors[1], reference=reference)


def step_of(
    group: dict[str, Any], t: Tensor | None, decay: Any, quantum_rate: Tensor | None = None, lr: Scalar | None = None
) -> Step:
    """A step with the hyperparameters of a group, and with another learning rate if one is given."""
    beta1, beta2 = group["betas"]
    if lr is None:
        lr = group["lr"]
    return Step(
        t=t,
        decay=decay,
        quantum_rate=quantum_rate,
        lr=lr,
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        beta1=beta1,
        beta2=beta2,
    )


def decide(works: list[BucketStep], inputs: StepInputs) -> None:
    """Decide for the tensors of all buckets, by torch's operations on any device: the ground truth.

    Args:
        works: the tensors of the step, with the sums over their gradients; gets gradient processing, step and scalars.
        inputs: what else the step is given.
    """
    factor = common_factor(works, inputs.max_grad_norm, inputs.grad_scale)
    for work in works:
        if work.sums is not None:
            process(work, factor)
    for work, gn in zip(works, pooled_norms(works), strict=True):
        if work.owned is not work.bucket:
            gn = take_owned(work, gn)
        memory = None
        if not inputs.observed:
            memory = memory_if_none_fires(work, gn)
        if memory is None:
            decide_bucket(work, gn)
        else:
            note_memory(work, memory)
        if inputs.found_inf is not None:
            keep_scalars_after_overflow(work, inputs.found_inf)


def memory_if_none_fires(work: BucketStep, gn: Tensor) -> DetectorState | None:
    """The detector's new memory, where it is all that the equations would change; otherwise None."""
    if not work.owned.on_host or work.group["quantum_decay"] != 0:
        return None
    memory = observe(gn, gn < math.inf, work.detector, work.group["eps"])
    fired = fires(work.group, memory) & (work.t_detector > t_warm(work.group))
    return None if fired.any() else memory


def decide_bucket(work: BucketStep, gn: Tensor) -> None:
    """Decide for the tensors of one bucket by the equations, and note step and scalars."""
    device = work.owned.device
    w, schedule = by_clocks(work.group, work.step.t, work.t_detector)
    w = upload("step", w, device)
    if isinstance(schedule, Tensor):
        schedule = upload("step", schedule, device)
    decision = equations(work.group, gn, work.detector, w, schedule)
    work.decision = decision
    work.step = work.step._replace(decay=decision.decay, quantum_rate=decision.quantum_rate)
    note_memory(work, decision.memory)


def note_memory(work: BucketStep, memory: DetectorState) -> None:
    """Note the detector's memory as new values of the states' scalars."""
    for name, values in zip(memory_names(work.group), memory, strict=False):
        assert values is not None  # a relative signal has a reference
        work.scalars[name] = values


def keep_scalars_after_overflow(work: BucketStep, found_inf: Tensor) -> None:
    """Replace the new values of all scalars by the present ones if `found_inf` is above 0."""
    overflow = found_inf > 0
    for name, values in work.scalars.items():  # some may be on the host, which must wait for the copy
        work.scalars[name] = torch.where(overflow.to(values.device), work.scalars_before[name], values)


def equations(group: dict[str, Any], gn: Tensor, memory: DetectorState, w: Tensor, schedule: Scalar) -> Decision:
    """The paper's equations, for gn that is pooled over the group's `chaos_scope`, and what `by_clocks` returns."""
    lr = group["lr"]
    eps = group["eps"]
    is_known = gn < math.inf  # a norm is not negative, and a comparison with NaN is False
    memory = observe(gn, is_known, memory, eps)
    ratio = memory.fast / (memory.slow + eps)
    # tanh(slow) (1 + 0.5 tanh(relu(ratio - 1))), section 3.3, multiplied out; this softshrink is that relu
    excess = F.softshrink(ratio, 1.0)
    if transformed():
        level = memory.slow.tanh()
        burst = excess.tanh()
    else:
        level, burst = torch._foreach_tanh([memory.slow, excess])
    chaos = torch.addcmul(level, level, burst, value=0.5)
    s = fires(group, memory)
    # If gn is not finite, nothing is known of this step: no cancellation, no quantum decay.
    w = w * is_known
    strength = lr * (group["gamma"] * schedule) * group["p_ext"] * chaos  # equation 2
    bounded = torch.clamp(strength, max=group["max_cancel"])
    cancellation = w * torch.where(s, bounded, 0.0)
    decay = lr * group["weight_decay"] + cancellation  # equation 3
    quantum_rate = None
    if group["quantum_decay"] > 0:
        quantum_rate = lr * (group["quantum_decay"] * schedule) * w * ~s  # equation 4
    return Decision(
        gn=gn,
        memory=memory,
        ratio=ratio,
        chaos=chaos,
        gate=s,
        warmup=w,
        cancellation=cancellation,
        decay=decay,
        quantum_rate=quantum_rate,
    )


def observe(gn: Tensor, finite: Tensor, memory: DetectorState, eps: Scalar) -> DetectorState:
    """Update the detector's memory with gn, but not where gn is not finite: one NaN would stay in an EMA forever."""
    old_reference = memory.reference
    if old_reference is None:
        new_fast, new_slow = ema_pair(gn, memory)
        reference = None
    else:
        starts = old_reference == 0
        average = torch.where(starts, gn, 0.99 * old_reference + 0.01 * gn)
        fast_ema, slow_ema = ema_pair(gn / (average + eps), memory)
        new_fast = torch.where(starts, 1.0, fast_ema)
        new_slow = torch.where(starts, 1.0, slow_ema)
        reference = torch.where(finite, average, old_reference)
    fast = torch.where(finite, new_fast, memory.fast)
    slow = torch.where(finite, new_slow, memory.slow)
    return DetectorState(fast, slow, reference)


def ema_pair(signal: Tensor, memory: DetectorState) -> tuple[Tensor, Tensor]:
    """0.90 fast + 0.10 signal and 0.99 slow + 0.01 signal, by the same calls: on a GPU each is a launch."""
    if transformed():
        return 0.90 * memory.fast + 0.10 * signal, 0.99 * memory.slow + 0.01 * signal
    kept = torch._foreach_mul([memory.fast, memory.slow], [0.90, 0.99])
    added = torch._foreach_mul([signal, signal], [0.10, 0.01])
    fast, slow = torch._foreach_add(kept, added)
    return fast, slow


def fires(group: dict[str, Any], memory: DetectorState) -> Tensor:
    """The gate s: which tensors spike, given the memory after a step (section 3.3).

    A relative signal has a margin of eps.
    """
    if not group["adaptive_tau"]:
        return torch.ge(memory.slow, group["chaos_tau"])
    threshold: Tensor = group["tau_scale"] * memory.slow
    if memory.reference is not None:
        threshold = threshold + group["eps"]
    return memory.fast > threshold


def by_clocks(group: dict[str, Any], t: Tensor, t_detector: Tensor) -> tuple[Tensor, Scalar]:
    """The functions of the step counts: the warm-up weight w (section 3.5) and the cosine schedule (section 3.4).

    The clock of the schedule is t, the parameter's step from 1, that of the warm-up the detector's.
    """
    return warmup_weight(group, t_detector), cosine(group["gamma_T_max"], t)


def warmup_weight(group: dict[str, Any], t_detector: Tensor) -> Tensor:
    """w: 0 for t_warm steps of the detector, then rising to 1 in a quarter of them."""
    horizon = t_warm(group)
    if horizon == 0:
        return torch.ones_like(t_detector)
    ramp = (t_detector - horizon) / (horizon / 4)
    return torch.clamp(ramp, 0, 1)


def cosine(T_max: float, t: Tensor) -> Scalar:
    """The schedule of gamma and q: from 1 to 0 in T_max steps; 1 without T_max."""
    if T_max == 0:
        return 1.0
    progress = torch.clamp(t / T_max, max=1)
    return 0.5 * (1 + torch.cos(math.pi * progress))
