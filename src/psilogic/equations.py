"""The equations of the PsiLogic paper, one short function each.

Every quantity is a vector over tensors, shape (N,), unless stated otherwise: element i belongs to the i-th
tensor. Names are the paper's. These functions have no state, move no data between devices and know no parameter
groups; `psilogic.decision` composes them in the order of the paper's Listing 1.

Reference: "PsiLogic: Chaos-Aware Active Cancellation for Adam with a Fair Cross-Domain Benchmark", section 3.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

Scalar = float | Tensor
"""A hyperparameter or a product of some: a number; a tensor if it is on the device or differs between tensors."""


def normalized_norm(norm: Tensor, root_numel: Scalar) -> Tensor:
    """gn = ||g||_2 / sqrt(numel) (section 3.3)."""
    return norm / root_numel


def emas(fast: Tensor, slow: Tensor, gn: Tensor) -> tuple[Tensor, Tensor]:
    """fast_t = 0.90 fast_{t-1} + 0.10 gn_t, slow_t = 0.99 slow_{t-1} + 0.01 gn_t (section 3.3).

    Horizons of about 10 and 100 steps. The same calls compute both: on a GPU each call is a launch.
    """
    kept, added = torch._foreach_mul([fast, slow], [0.90, 0.99]), torch._foreach_mul([gn, gn], [0.10, 0.01])
    fast, slow = torch._foreach_add(kept, added)
    return fast, slow


def chaos_ratio(fast: Tensor, slow: Tensor, eps: float) -> Tensor:
    """ratio = fast / (slow + eps) (section 3.3)."""
    return fast / (slow + eps)


def chaos(slow: Tensor, ratio: Tensor) -> Tensor:
    """chaos = tanh(slow) (1 + 0.5 tanh(relu(ratio - 1))), in [0, 1.5) (section 3.3).

    Multiplied out, and with softshrink, which is that relu since a ratio is not negative: fewer calls.
    """
    level, burst = torch._foreach_tanh([slow, F.softshrink(ratio, 1.0)])
    return torch.addcmul(level, level, burst, value=0.5)


def adaptive_gate(fast: Tensor, slow: Tensor, tau_scale: Scalar, margin: float) -> Tensor:
    """s = [fast > tau_scale slow + margin]: a spike relative to the tensor's past (section 3.3).

    The margin is 0 for the raw signal and eps for the relative one.
    """
    threshold = tau_scale * slow
    return fast > (threshold + margin if margin > 0 else threshold)


def absolute_gate(slow: Tensor, chaos_tau: Scalar) -> Tensor:
    """s = [slow >= chaos_tau]: the gate when `adaptive_tau` is off."""
    return slow >= chaos_tau


def warmup_horizon(chaos_warmup: int, total_steps: int, gamma_T_max: int) -> float:
    """t_warm: `chaos_warmup` itself, or max(500, T/20) when it is -1 (section 3.5).

    T is `total_steps`, or `gamma_T_max` if that is 0; if both are 0, t_warm is 500.
    """
    return float(chaos_warmup) if chaos_warmup >= 0 else max(500.0, (total_steps or gamma_T_max) / 20)


def warmup_weight(t: Tensor, t_warm: float) -> Tensor:
    """w = clip((t - t_warm) / (t_warm / 4), 0, 1), and 1 when t_warm = 0 (section 3.5)."""
    return torch.clamp((t - t_warm) / (t_warm / 4), 0, 1) if t_warm > 0 else torch.ones_like(t)


def cosine_schedule(t: Tensor, T_max: int) -> Scalar:
    """0.5 (1 + cos(pi min(t / T_max, 1))), and constantly 1 when T_max = 0 (section 3.4)."""
    return 0.5 * (1 + torch.cos(math.pi * torch.clamp(t / T_max, max=1))) if T_max > 0 else 1.0


def cancellation(s: Tensor, chaos: Tensor, lr: Scalar, gamma: Scalar, p_ext: Scalar, max_cancel: Scalar) -> Tensor:
    """c = min(s chaos lr gamma P_k, c_max): equation 2 and the clamp of equation 3."""
    return torch.where(s, torch.clamp(lr * gamma * p_ext * chaos, max=max_cancel), 0.0)


def unified_decay(lr: Scalar, weight_decay: Scalar, cancelled: Tensor) -> Tensor:
    """delta = lr lambda + w c: equation 3."""
    return lr * weight_decay + cancelled


def quantum_rate(lr: Scalar, q: Scalar, w: Tensor, s: Tensor) -> Tensor:
    """lr q_t w (1 - s): the factor of tanh|g| in equation 4."""
    return lr * q * w * ~s


def reference_ema(reference: Tensor, gn: Tensor) -> Tensor:
    """The 0.99-EMA of gn that the relative signal divides by; it starts at the first gn that is not zero."""
    return torch.where(reference == 0, gn, 0.99 * reference + 0.01 * gn)


def bias_correction(beta: float, t: Tensor) -> Tensor:
    """1 - beta^t, Adam's correction for moments that start at zero."""
    return 1 - beta**t
