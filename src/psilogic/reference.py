"""The paper's rule for one tensor, in plain torch: what `PsiLogic` does, and what its executions are tested against.

Names are the paper's. `h` has the hyperparameters of a parameter group; the options that join several tensors
(`max_grad_norm`, the pooled scopes) give `g` and `gn` from outside.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Decided(NamedTuple):
    """The gate s, the warm-up weight w, and the cancellation c, in [0, max_cancel]."""

    s: bool = False
    w: float = 0.0
    c: float = 0.0


def process(g: Tensor, theta: Tensor, h: Mapping[str, Any]) -> Tensor:
    """Sign, adaptive clipping (AGC, Brock et al. 2021), centralization (GC, Yong et al. 2020)."""
    g, rest = (-g if h["maximize"] else g), tuple(range(1, g.ndim))
    if h["agc_clip"] > 0:
        dims = rest if h["agc_norm"] == "unit" and rest else None
        norm, of_theta = (torch.linalg.vector_norm(x, dim=dims, keepdim=True) for x in (g, theta))
        most = h["agc_clip"] * of_theta.clamp(min=1e-3)
        g = torch.where((most < norm) & (norm < math.inf), g * (most / norm), g)
    return g - g.mean(rest, keepdim=True).nan_to_num(0.0, 0.0, 0.0) if h["grad_centralize"] and rest else g


def decide(gn: float, state: dict[str, Any], h: Mapping[str, Any]) -> Decided:
    """The detector: it takes gn, and decides what active cancellation removes (sections 3.3 to 3.5)."""
    if not math.isfinite(gn):
        return Decided()  # nothing is known of this step
    relative, eps, starts = h["chaos_signal"] == "relative", h["eps"], state["chaos_ref"] == 0
    if relative:
        state["chaos_ref"] = gn if starts else 0.99 * state["chaos_ref"] + 0.01 * gn
        gn /= state["chaos_ref"] + eps
    fast, slow = 0.90 * state["chaos_fast"] + 0.10 * gn, 0.99 * state["chaos_slow"] + 0.01 * gn
    state["chaos_fast"], state["chaos_slow"] = fast, slow = (1.0, 1.0) if relative and starts else (fast, slow)
    chaos = math.tanh(slow) * (1 + 0.5 * math.tanh(max(fast / (slow + eps) - 1, 0)))
    s = fast > h["tau_scale"] * slow + eps * relative if h["adaptive_tau"] else slow >= h["chaos_tau"]
    T, t_warm = h["total_steps"] or h["gamma_T_max"], h["chaos_warmup"]
    t_warm, age = max(500, T / 20) if t_warm == -1 else t_warm, state["step"] - state["chaos_start"]
    w = min(max((age - t_warm) / (t_warm / 4), 0), 1) if t_warm > 0 else 1
    c = min(s * chaos * h["lr"] * h["gamma"] * cosine(state["step"], h) * h["p_ext"], h["max_cancel"])
    return Decided(s, w, c)


def cosine(t: float, h: Mapping[str, Any]) -> float:
    """The schedule of gamma and q: from 1 to 0 in gamma_T_max steps."""
    return (1 + math.cos(math.pi * min(t / h["gamma_T_max"], 1))) / 2 if h["gamma_T_max"] else 1.0


def step_(theta: Tensor, g: Tensor, gn: float, state: dict[str, Any], h: Mapping[str, Any]) -> Decided:
    """One step in place, with a gradient after `process` and its gn = ||g|| / sqrt(numel); the state starts as {}."""
    t = state["step"] = state.get("step", 0) + 1
    state.update({k: torch.zeros_like(theta) for k in ("exp_avg", "exp_avg_sq") if k not in state})
    state.update({"chaos_start": t - 1, "chaos_fast": 0, "chaos_slow": 0, "chaos_ref": 0} | state)
    s, w, c = decided = decide(gn, state, h)
    lr, (beta1, beta2) = h["lr"], h["betas"]
    theta *= 1 - (lr * h["weight_decay"] + w * c)  # equation 3: decay and active cancellation
    theta *= 1 - lr * h["quantum_decay"] * cosine(t, h) * w * (1 - s) * g.abs().tanh()  # equation 4
    m, v = state["exp_avg"].lerp_(g, 1 - beta1), state["exp_avg_sq"].mul_(beta2).addcmul_(g, g, value=1 - beta2)
    theta -= lr * (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + h["eps"])
    return decided
