"""The decision of the chaos detector for the tensors of one group: from gradient norms to decay rates."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from psilogic import equations as eq
from psilogic.equations import Scalar


class Chaos(NamedTuple):
    """The detector's memory of N tensors, each of shape (N,).

    Attributes:
        fast: the 0.90-EMA of the signal.
        slow: the 0.99-EMA of the signal.
        reference: the 0.99-EMA of gn that the relative signal is divided by; None for the raw signal.
    """

    fast: Tensor
    slow: Tensor
    reference: Tensor | None


class Decision(NamedTuple):
    """The effect of one step on N tensors, each of shape (N,); `psilogic.monitor` shows these quantities.

    Attributes:
        gn: scale-normalized norm of the processed gradient.
        memory: the detector's new memory.
        ratio: fast / (slow + eps).
        chaos: the chaos measure, in [0, 1.5).
        gate: s, True where the tensor spikes.
        warmup: w, the chaos warm-up weight, 0 where gn is not finite.
        cancellation: w c, the fraction of theta that active cancellation removes in this step.
        decay: delta = lr weight_decay + w c.
        quantum_rate: lr q_t w (1 - s); None when quantum decay is off.
    """

    gn: Tensor
    memory: Chaos
    ratio: Tensor
    chaos: Tensor
    gate: Tensor
    warmup: Tensor
    cancellation: Tensor
    decay: Tensor
    quantum_rate: Tensor | None


Observer = Callable[[list[Tensor], Decision], None]
"""Called after each step with tensors and the decision about them."""


class Observable(Optimizer):
    """An optimizer with a chaos detector whose decisions can be observed."""

    _observers: list[Observer]


def observe(gn: Tensor, finite: Tensor, memory: Chaos, eps: float) -> Chaos:
    """Update the detector's memory with gn, but not where gn is not finite: one NaN would stay in an EMA forever."""
    if memory.reference is None:
        (fast, slow), reference = eq.emas(memory.fast, memory.slow, gn), None
    else:
        starts = memory.reference == 0
        new_reference = eq.reference_ema(memory.reference, gn)
        signal = gn / (new_reference + eps)
        fast, slow = (torch.where(starts, 1.0, ema) for ema in eq.emas(memory.fast, memory.slow, signal))
        reference = torch.where(finite, new_reference, memory.reference)
    return Chaos(torch.where(finite, fast, memory.fast), torch.where(finite, slow, memory.slow), reference)


def by_clocks(group: dict[str, Any], t: Tensor, t_detector: Tensor) -> tuple[Tensor, Scalar]:
    """The functions of the step counts: the warm-up weight w and the cosine schedule, each of shape (N,).

    Args:
        group: the hyperparameters, as in `torch.optim.Optimizer.param_groups`.
        t: the number of the parameter's step, from 1, shape (N,): the clock of the cosine schedule.
        t_detector: the number of the detector's update, from 1, shape (N,): the clock of the warm-up.
    """
    return eq.warmup_weight(t_detector, t_warm(group)), eq.cosine_schedule(t, group["gamma_T_max"])


def gate(group: dict[str, Any], memory: Chaos) -> Tensor:
    """Which tensors spike, given the memory after a step, shape (N,)."""
    if not group["adaptive_tau"]:
        return eq.absolute_gate(memory.slow, group["chaos_tau"])
    margin = 0.0 if memory.reference is None else group["eps"]
    return eq.adaptive_gate(memory.fast, memory.slow, group["tau_scale"], margin)


def t_warm(group: dict[str, Any]) -> float:
    """The steps without chaos term."""
    return eq.warmup_horizon(group["chaos_warmup"], group["total_steps"], group["gamma_T_max"])


def decide(group: dict[str, Any], gn: Tensor, memory: Chaos, w: Tensor, schedule: Scalar) -> Decision:
    """Compose the paper's equations for the tensors of one group; `psilogic.reference` has them for one tensor.

    Args:
        group: the hyperparameters, as in `torch.optim.Optimizer.param_groups`.
        gn: scale-normalized gradient norms, shape (N,), already pooled over the group's `chaos_scope`.
        memory: the detector's memory before this step, each of shape (N,).
        w: the warm-up weights, shape (N,).
        schedule: the cosine schedule, a number or of shape (N,).

    Returns:
        The decision for each tensor.
    """
    lr, eps, q_0 = group["lr"], group["eps"], group["quantum_decay"]
    known = gn < math.inf  # a norm is not negative, and a comparison with NaN is False
    memory_after = observe(gn, known, memory, eps)
    fast, slow, _ = memory_after
    ratio = eq.chaos_ratio(fast, slow, eps)
    chaos = eq.chaos(slow, ratio)
    s = gate(group, memory_after)
    # If gn is not finite, nothing is known of this step: no cancellation, no quantum decay.
    w = w * known
    cancelled = w * eq.cancellation(s, chaos, lr, group["gamma"] * schedule, group["p_ext"], group["max_cancel"])
    return Decision(
        gn=gn,
        memory=memory_after,
        ratio=ratio,
        chaos=chaos,
        gate=s,
        warmup=w,
        cancellation=cancelled,
        decay=eq.unified_decay(lr, group["weight_decay"], cancelled),
        quantum_rate=eq.quantum_rate(lr, q_0 * schedule, w, s) if q_0 > 0 else None,
    )
