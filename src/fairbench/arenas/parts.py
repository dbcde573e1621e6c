"""Parts that several models use."""

from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn


def named(**modules: nn.Module) -> nn.Sequential:
    """A sequence of modules with the given names."""
    return nn.Sequential(OrderedDict(modules))


def multi_head_attention(q: Tensor, k: Tensor, v: Tensor, heads: int, is_causal: bool = False) -> Tensor:
    """Scaled dot-product attention; queries, keys, values and the result have the shape (N, T, size)."""
    if q.shape[2] % heads:
        raise ValueError(f"the hidden size must be a multiple of heads; got {q.shape[2]} and {heads}")
    mixed = F.scaled_dot_product_attention(
        _by_head(q, heads), _by_head(k, heads), _by_head(v, heads), is_causal=is_causal
    )
    return mixed.transpose(1, 2).flatten(2)


def _by_head(x: Tensor, heads: int) -> Tensor:
    """Split the heads: from shape (N, T, size) to (N, heads, T, size / heads)."""
    split: Tensor = x.unflatten(2, (heads, -1))
    return split.transpose(1, 2)
