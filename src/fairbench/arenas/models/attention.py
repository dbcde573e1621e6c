"""Attention of several heads, which three of the models use."""

import torch.nn.functional as F
from torch import Tensor


def multi_head_attention(q: Tensor, k: Tensor, v: Tensor, heads: int, is_causal: bool = False) -> Tensor:
    """Scaled dot-product attention; queries, keys, values and the result have the shape (N, T, size)."""
    if q.shape[2] % heads:
        raise ValueError(f"the hidden size must be a multiple of heads; got {q.shape[2]} and {heads}")
    q, k, v = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).transpose(1, 2).flatten(2)
