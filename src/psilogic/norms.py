"""Norms of gradients, as vectors over tensors, and their pooling over a chaos scope."""

from collections.abc import Sequence

import torch
from torch import Tensor

Foreach = list[Tensor]


def fresh(tensors: Sequence[Tensor]) -> Foreach:
    """Copies where autograd records the step: it keeps operands that later lines change in place."""
    return [x.clone() for x in tensors] if torch.is_grad_enabled() else list(tensors)


def copy_(targets: Foreach, sources: Foreach) -> None:
    """targets <- sources, also where autograd records the step: `_foreach_copy_` has no derivative."""
    if torch.is_grad_enabled():
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)
    else:
        torch._foreach_copy_(targets, sources)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which squares are summed: float32 for half precision, else the tensor's own."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def gradient_norms(grads: Foreach, dtype: torch.dtype) -> Tensor:
    """||g||_2 of each tensor as one vector of shape (N,) in `dtype`; half precision accumulates in float32."""
    norms = torch._foreach_norm(grads, 2, dtype=accumulation_dtype(grads[0].dtype))
    return torch.stack(norms).to(dtype)


def pooled_norm(norms: Sequence[Tensor]) -> Tensor:
    """The norm of all tensors together, 0-dim, on the device and in the dtype of the first vector."""
    first = norms[0]
    total: Tensor = torch.linalg.vector_norm(torch.cat([norm.to(first.device, first.dtype) for norm in norms]))
    return total
