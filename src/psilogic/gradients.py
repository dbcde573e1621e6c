"""What happens to a gradient before the detector and Adam see it: clipping, AGC, centralization.

Every function returns new tensors: `p.grad` is never modified.
"""

from typing import Any

import torch
from torch import Tensor

from psilogic.norms import Foreach, accumulation_dtype, fresh

AGC_FLOOR = 1e-3
"""The smallest parameter norm that AGC compares a gradient with, so that weights at zero can leave it."""


def process(grads: Foreach, params: Foreach, group: dict[str, Any], factor: Tensor | None) -> Foreach:
    """The gradients that the detector and Adam see: sign, unscaling and global clipping, AGC, centralization.

    Args:
        grads: gradients of one device and dtype.
        params: their parameters.
        group: the hyperparameters.
        factor: what unscaling and global clipping multiply every gradient by; None for nothing.

    Returns:
        New tensors where anything changes.
    """
    if group["maximize"]:
        grads = list(torch._foreach_neg(grads))
    if factor is not None:
        dtype = grads[0].dtype  # which 0-dim gradients lose to the factor's
        grads = [g.to(dtype) for g in torch._foreach_mul(grads, [factor.to(grads[0].device)] * len(grads))]
    if group["agc_clip"] > 0:
        pairs = zip(grads, fresh(params), strict=True)
        grads = [adaptive_clip(g, p, group["agc_clip"], group["agc_norm"]) for g, p in pairs]
    if group["grad_centralize"]:
        grads = [centralize(g) for g in grads]
    return grads


def clip_factor(total_norm: Tensor, max_norm: float) -> Tensor:
    """min(1, max_norm / (total_norm + 1e-6)), as in `torch.nn.utils.clip_grad_norm_`."""
    return torch.clamp(max_norm / (total_norm + 1e-6), max=1.0)


def unit_norm(x: Tensor) -> Tensor:
    """Norm of each row of dimension 0, broadcastable to x; of the whole tensor when ndim <= 1."""
    rows = tuple(range(1, x.ndim)) or None
    norm: Tensor = torch.linalg.vector_norm(x, dim=rows, keepdim=True, dtype=accumulation_dtype(x.dtype))
    return norm


def tensor_norm(x: Tensor) -> Tensor:
    """Norm of the whole tensor, 0-dim."""
    norm: Tensor = torch.linalg.vector_norm(x, dtype=accumulation_dtype(x.dtype))
    return norm


def adaptive_clip(grad: Tensor, param: Tensor, clip: float, unit: str) -> Tensor:
    """Adaptive gradient clipping: g <- g min(1, clip max(||theta||, 1e-3) / ||g||), per unit.

    Args:
        grad: the gradient.
        param: the parameter, of the same shape.
        clip: the largest allowed ratio of the two norms.
        unit: "unit" for rows of dimension 0 (the whole tensor when ndim <= 1), "tensor" for the whole tensor.

    Returns:
        The clipped gradient, a new tensor.

    Reference: Brock et al. 2021, "High-Performance Large-Scale Image Recognition Without Normalization".
    """
    norm = unit_norm if unit == "unit" else tensor_norm
    largest = clip * norm(param).clamp(min=AGC_FLOOR)
    grad_norm = norm(grad)
    # Where the norm is not finite the factor would spread one bad element over its unit: leave it alone.
    clipped = (grad_norm > largest) & torch.isfinite(grad_norm)
    return (grad * torch.where(clipped, largest / grad_norm, 1.0)).to(grad.dtype)


def centralize(grad: Tensor) -> Tensor:
    """Gradient centralization: g minus its mean over all dimensions but the first, when ndim > 1.

    Reference: Yong et al. 2020, "Gradient Centralization: A New Optimization Technique for Deep Neural Networks".
    """
    if grad.ndim <= 1:
        return grad
    mean = grad.mean(dim=tuple(range(1, grad.ndim)), keepdim=True)
    # A mean that is not finite would spread one bad element over its row: leave the row alone.
    return grad - torch.where(torch.isfinite(mean), mean, 0.0)
