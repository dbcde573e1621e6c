"""The paper's rule for one tensor, in plain torch: what `PsiLogic` does, and what its backends are tested against.

Names are the paper's. `h` has the hyperparameters of a parameter group. The options that join several tensors
(`max_grad_norm` and the pooled values of `chaos_scope`) act outside: they give `g` and `gn`.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Decided(NamedTuple):
    """The detector's decision in one step."""

    s: bool  # the gate: whether the tensor spikes
    w: float  # the chaos warm-up weight, from 0 to 1
    c: float  # the cancellation, from 0 to max_cancel


def process(g: Tensor, theta: Tensor, h: Mapping[str, Any]) -> Tensor:
    """The gradient after its sign, adaptive clipping and centralization."""
    if h["maximize"]:
        g = -g
    if h["agc_clip"] > 0:
        g = clip_adaptively(g, theta, h)
    if h["grad_centralize"] and g.ndim > 1:
        g = centralize(g)
    return g


def clip_adaptively(g: Tensor, theta: Tensor, h: Mapping[str, Any]) -> Tensor:
    """Adaptive gradient clipping (AGC, Brock et al. 2021), row by row or of the whole tensor."""
    by_rows = h["agc_norm"] == "unit" and g.ndim > 1
    dims = tuple(range(1, g.ndim)) if by_rows else None
    norm = torch.linalg.vector_norm(g, dim=dims, keepdim=True)
    param_norm = torch.linalg.vector_norm(theta, dim=dims, keepdim=True)
    largest = h["agc_clip"] * param_norm.clamp(min=1e-3)
    clipped = g * (largest / norm)
    is_clipped = (norm > largest) & (norm < math.inf)
    return torch.where(is_clipped, clipped, g)


def centralize(g: Tensor) -> Tensor:
    """Gradient centralization (GC, Yong et al. 2020): the mean of each row becomes 0, if it is finite."""
    mean = g.mean(dim=tuple(range(1, g.ndim)), keepdim=True)
    finite_mean = mean.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    return g - finite_mean


def step_(theta: Tensor, g: Tensor, gn: float, state: dict[str, Any], h: Mapping[str, Any]) -> Decided:
    """One step in place, with a gradient after `process` and its gn = ||g|| / sqrt(numel); the state starts as {}."""
    init_state(state, theta)
    state["step"] += 1
    t = state["step"]
    s, w, c = decide(gn, state, h)

    # Equation 3: weight decay and active cancellation.
    delta = h["lr"] * h["weight_decay"] + w * c
    theta *= 1 - delta

    # Equation 4: quantum decay, where the tensor does not spike.
    if not s:
        q = h["quantum_decay"] * cosine(t, h)
        theta *= 1 - h["lr"] * q * w * g.abs().tanh()

    # Adam.
    beta1, beta2 = h["betas"]
    m = state["exp_avg"]
    v = state["exp_avg_sq"]
    m.lerp_(g, 1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    theta -= h["lr"] * m_hat / (v_hat.sqrt() + h["eps"])
    return Decided(s, w, c)


def init_state(state: dict[str, Any], theta: Tensor) -> None:
    """Start what the state lacks: all of it, or the detector's part if another Adam began the training."""
    if "exp_avg" not in state:
        state["step"] = 0
        state["exp_avg"] = torch.zeros_like(theta)
        state["exp_avg_sq"] = torch.zeros_like(theta)
    if "chaos_fast" not in state:
        state["chaos_start"] = state["step"]
        state["chaos_fast"] = 0.0
        state["chaos_slow"] = 0.0
    if "chaos_ref" not in state:
        state["chaos_ref"] = 0.0


def decide(gn: float, state: dict[str, Any], h: Mapping[str, Any]) -> Decided:
    """The chaos detector (sections 3.3 to 3.5): it remembers gn, and decides about this step."""
    if not math.isfinite(gn):
        return Decided(s=False, w=0.0, c=0.0)  # nothing is known of this step
    observe(gn, state, h)
    fast = state["chaos_fast"]
    slow = state["chaos_slow"]
    excess = max(fast / (slow + h["eps"]) - 1, 0.0)
    chaos = math.tanh(slow) * (1 + 0.5 * math.tanh(excess))
    s = spikes(fast, slow, h)
    w = warmup(state["step"] - state["chaos_start"], h)
    c = 0.0
    if s:
        gamma = h["gamma"] * cosine(state["step"], h)
        c = min(chaos * h["lr"] * gamma * h["p_ext"], h["max_cancel"])  # equation 2
    return Decided(s, w, c)


def observe(gn: float, state: dict[str, Any], h: Mapping[str, Any]) -> None:
    """Update the fast and the slow moving average of gn, or of gn relative to its own average."""
    if h["chaos_signal"] == "relative":
        if state["chaos_ref"] == 0:  # the first gn that is not 0 is the average
            state["chaos_ref"] = gn
            state["chaos_fast"] = 1.0
            state["chaos_slow"] = 1.0
            return
        state["chaos_ref"] = 0.99 * state["chaos_ref"] + 0.01 * gn
        gn = gn / (state["chaos_ref"] + h["eps"])
    state["chaos_fast"] = 0.90 * state["chaos_fast"] + 0.10 * gn
    state["chaos_slow"] = 0.99 * state["chaos_slow"] + 0.01 * gn


def spikes(fast: float, slow: float, h: Mapping[str, Any]) -> bool:
    """The gate s: whether the fast average is far above the slow one, or the slow one above a fixed threshold."""
    if not h["adaptive_tau"]:
        return bool(slow >= h["chaos_tau"])
    threshold = h["tau_scale"] * slow
    if h["chaos_signal"] == "relative":
        threshold += h["eps"]
    return bool(fast > threshold)


def warmup(age: float, h: Mapping[str, Any]) -> float:
    """The weight w in a detector's step number `age`: 0 until t_warm, then rising to 1 over a quarter of t_warm."""
    t_warm: float = h["chaos_warmup"]
    T = h["total_steps"] or h["gamma_T_max"]
    if t_warm == -1:
        t_warm = max(500, T / 20)
    elif 0 < t_warm < 1:
        t_warm = t_warm * T
    if t_warm == 0:
        return 1.0
    ramp = (age - t_warm) / (t_warm / 4)
    return min(max(ramp, 0.0), 1.0)


def cosine(t: float, h: Mapping[str, Any]) -> float:
    """The schedule of gamma and q: from 1 to 0 in gamma_T_max steps, or always 1."""
    if h["gamma_T_max"] == 0:
        return 1.0
    progress = min(t / h["gamma_T_max"], 1.0)
    return (1 + math.cos(math.pi * progress)) / 2
