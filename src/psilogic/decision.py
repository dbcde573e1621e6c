"""The decision of the chaos detector: from gradient norms to decay rates, for all tensors of a bucket at once.

`psilogic.reference` has the same for one tensor. Names are the paper's, with its sections; quantities are vectors over
tensors, shape (N,), unless stated otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from psilogic.gradients import common_factor, process, signals, to_owned
from psilogic.tensors.device_tables import upload
from psilogic.tensors.norms import copied
from psilogic.tensors.state import CLOCKS, memory_names

if TYPE_CHECKING:
    from psilogic.updates.types import Work

Scalar = float | Tensor
"""A hyperparameter or a product of some: a number; a tensor if it is on the device or differs between tensors."""


class Chaos(NamedTuple):
    """The detector's memory of N tensors, each of shape (N,)."""

    fast: Tensor  # the 0.90-EMA of the signal
    slow: Tensor  # the 0.99-EMA of the signal
    reference: Tensor | None  # the 0.99-EMA of gn that the relative signal is divided by; None for the raw signal


class Decision(NamedTuple):
    """The effect of one step on N tensors, each of shape (N,); `psilogic.monitor` shows these quantities."""

    gn: Tensor  # scale-normalized norm of the processed gradient
    memory: Chaos  # the detector's new memory
    ratio: Tensor  # fast / (slow + eps)
    chaos: Tensor  # the chaos measure, in [0, 1.5)
    gate: Tensor  # s, True where the tensor spikes
    warmup: Tensor  # w, the chaos warm-up weight, 0 where gn is not finite
    cancellation: Tensor  # w c, the fraction of theta that active cancellation removes in this step
    decay: Tensor  # delta = lr weight_decay + w c
    quantum_rate: Tensor | None  # lr q_t w (1 - s); None when quantum decay is off


class Step(NamedTuple):
    """An update of N tensors: vectors over them, and hyperparameters; those in which they differ are vectors too."""

    # Step of each parameter, from 1, shape (N,); on the host if the host has both it and lr; None where kernels count.
    t: Any
    decay: Tensor  # delta, shape (N,)
    quantum_rate: Tensor | None  # lr q_t w (1 - s), shape (N,); None when quantum decay is off
    lr: Scalar  # learning rate, a number or a tensor with one element, or of shape (N,)
    weight_decay: Scalar  # lambda, with which delta is lr lambda where nothing fires; a number or of shape (N,)
    eps: Scalar  # added to the denominator, outside the root; a number or of shape (N,)
    beta1: Scalar  # Adam's decay rate of the first moment, likewise
    beta2: Scalar  # Adam's decay rate of the second moment, likewise

    def of(self, chosen: slice | Tensor | list[int]) -> Step:
        """The step of the chosen tensors."""
        every: Any = [x[chosen] if isinstance(x, Tensor) and x.ndim else x for x in self]
        return Step(*every)


Observer = Callable[[list[Tensor], Decision], None]
"""Called after each step with tensors and the decision about them."""


class Observable(Optimizer):
    """An optimizer with a chaos detector whose decisions can be observed."""

    _observers: list[Observer]


def prepare(work: Work) -> None:
    """Note what is known about a step of these tensors without their gradients."""
    bucket, group = work.owned, work.group
    work.before = scalars = bucket.cache.scalars.read(work.states, (*CLOCKS, *memory_names(group)))
    work.scalars = {"step": scalars["step"] + 1}
    t = work.scalars["step"].to(bucket.vector_dtype)
    work.t_detector = t - upload("chaos_start", scalars["chaos_start"], t.device)
    memory = [upload(name, scalars[name], bucket.device) for name in memory_names(group)]
    work.memory = Chaos(*copied(memory, bucket.vector_dtype), *[None] * (3 - len(memory)))
    lr, weight_decay = group["lr"], group["weight_decay"]
    if isinstance(lr, Tensor) or isinstance(weight_decay, Tensor):
        t = upload("step", t, bucket.device)
    delta = lr * weight_decay
    decay = torch.ones_like(t) * delta if isinstance(delta, Tensor) else torch.full_like(t, delta)
    work.quiet = work.step = Step(t, decay, None, lr, weight_decay, group["eps"], *group["betas"])


def decide(
    works: list[Work], max_norm: float | None, grad_scale: Tensor | None, found_inf: Tensor | None, observed: bool
) -> None:
    """Decide for the tensors of all buckets, by torch's operations on any device: the ground truth.

    Args:
        works: the tensors of the step, with the sums over their gradients; gets gradient processing, step and scalars.
        max_norm: the largest norm of all gradients; None without clipping.
        grad_scale: the factor of the loss, one element; None for 1.
        found_inf: if it is above 0, all scalars stay as they are.
        observed: whether something observes the decisions.
    """
    works = [work for work in works if not work.decided]
    if not works:
        return
    factor = None if max_norm is None and grad_scale is None else common_factor(works, max_norm, grad_scale)
    for work in works:
        if work.sums is not None:
            process(work, factor)
    for work, gn in zip(works, signals(works), strict=True):
        if work.owned is not work.bucket:
            gn = to_owned(work, gn)
        bucket, group, memory = work.owned, work.group, work.memory
        quiet = bucket.on_host and not observed and group["quantum_decay"] == 0
        if quiet:  # if nothing fires, its memory is all that the equations would change
            memory = observe(gn, gn < math.inf, memory, group["eps"])
            quiet = not (gate(group, memory) & (work.t_detector > t_warm(group))).any()
        if not quiet:
            by_clock = by_clocks(group, work.step.t, work.t_detector)
            there: Any = [upload("step", x, bucket.device) if isinstance(x, Tensor) else x for x in by_clock]
            work.decision = found = equations(group, gn, work.memory, *there)
            memory, work.step = found.memory, work.step._replace(decay=found.decay, quantum_rate=found.quantum_rate)
        work.scalars |= {name: x for name, x in zip(memory_names(group), memory, strict=False) if x is not None}
        if found_inf is not None:
            overflow = found_inf > 0
            for name, values in work.scalars.items():  # some may be on the host, which must wait for the copy
                work.scalars[name] = torch.where(overflow.to(values.device), work.before[name], values)


def equations(group: dict[str, Any], gn: Tensor, memory: Chaos, w: Tensor, schedule: Scalar) -> Decision:
    """The paper's equations, for gn that is pooled over the group's `chaos_scope`, and what `by_clocks` returns."""
    lr, eps, q = group["lr"], group["eps"], group["quantum_decay"]
    known = gn < math.inf  # a norm is not negative, and a comparison with NaN is False
    memory = fast, slow, _ = observe(gn, known, memory, eps)
    ratio = fast / (slow + eps)
    # tanh(slow) (1 + 0.5 tanh(relu(ratio - 1))), section 3.3, multiplied out; this softshrink is that relu
    level, burst = torch._foreach_tanh([slow, F.softshrink(ratio, 1.0)])
    chaos = torch.addcmul(level, level, burst, value=0.5)
    s = gate(group, memory)
    # If gn is not finite, nothing is known of this step: no cancellation, no quantum decay.
    w = w * known
    strength = lr * (group["gamma"] * schedule) * group["p_ext"] * chaos  # equation 2
    cancelled = w * torch.where(s, torch.clamp(strength, max=group["max_cancel"]), 0.0)
    decay = lr * group["weight_decay"] + cancelled  # equation 3
    rate = lr * (q * schedule) * w * ~s if q > 0 else None  # equation 4
    return Decision(gn, memory, ratio, chaos, s, w, cancelled, decay, rate)


def observe(gn: Tensor, finite: Tensor, memory: Chaos, eps: Scalar) -> Chaos:
    """Update the detector's memory with gn, but not where gn is not finite: one NaN would stay in an EMA forever."""
    starts = reference = None
    if memory.reference is not None:
        starts, before = memory.reference == 0, memory.reference
        average = torch.where(starts, gn, 0.99 * before + 0.01 * gn)
        gn, reference = gn / (average + eps), torch.where(finite, average, before)
    # 0.90 fast + 0.10 gn and 0.99 slow + 0.01 gn by the same calls: on a GPU each is a launch
    old = [memory.fast, memory.slow]
    kept, added = torch._foreach_mul(old, [0.90, 0.99]), torch._foreach_mul([gn, gn], [0.10, 0.01])
    emas = torch._foreach_add(kept, added)
    if starts is not None:
        emas = tuple(torch.where(starts, 1.0, ema) for ema in emas)
    fast, slow = (torch.where(finite, ema, x) for ema, x in zip(emas, old, strict=True))
    return Chaos(fast, slow, reference)


def gate(group: dict[str, Any], memory: Chaos) -> Tensor:
    """s: which tensors spike, given the memory after a step (section 3.3); a relative signal has a margin of eps."""
    if not group["adaptive_tau"]:
        return torch.ge(memory.slow, group["chaos_tau"])
    threshold: Tensor = group["tau_scale"] * memory.slow
    return memory.fast > (threshold if memory.reference is None else threshold + group["eps"])


def t_warm(group: dict[str, Any]) -> float:
    """The steps without chaos term: `chaos_warmup` itself, or max(500, T/20) when it is -1 (section 3.5)."""
    given, T = group["chaos_warmup"], group["total_steps"] or group["gamma_T_max"]
    return float(given if given >= 0 else max(500, T / 20))


def by_clocks(group: dict[str, Any], t: Tensor, t_detector: Tensor) -> tuple[Tensor, Scalar]:
    """The functions of the step counts: the warm-up weight w (section 3.5) and the cosine schedule (section 3.4).

    The clock of the schedule is t, the parameter's step from 1, that of the warm-up the detector's.
    """
    horizon, T_max = t_warm(group), group["gamma_T_max"]
    w = torch.clamp((t_detector - horizon) / (horizon / 4), 0, 1) if horizon > 0 else torch.ones_like(t_detector)
    return w, 0.5 * (1 + torch.cos(math.pi * torch.clamp(t / T_max, max=1))) if T_max > 0 else 1.0
