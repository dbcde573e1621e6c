"""Vectors over tensors: norms of gradients, their roots and sums; and the lists of tensors that foreach takes."""

from collections.abc import Sequence

import torch
from torch import Tensor

Foreach = list[Tensor]
PART = 1 << 14
"""Of a longer vector several threads may form the sum."""


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


def as_real(tensors: Sequence[Tensor]) -> Foreach:
    """Tensors of one dtype: complex ones as real views with one more dimension, others as they are."""
    return [torch.view_as_real(x) for x in tensors] if tensors and tensors[0].is_complex() else list(tensors)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums are formed: float32 for half precision, else the tensor's own."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def tensor_squares(tensors: Foreach, dtype: torch.dtype) -> Tensor:
    """The sum of |x|^2 of each tensor, shape (N,), in `dtype`; half precision accumulates in float32."""
    return torch.stack(torch._foreach_norm(tensors, 2, dtype=accumulation_dtype(tensors[0].dtype))).to(dtype).square()


def row_squares(tensors: Foreach, dtype: torch.dtype) -> Tensor:
    """The sum of |x|^2 of each row of dimension 0, or of a whole tensor when ndim <= 1: one vector over all of them."""
    wide = accumulation_dtype(tensors[0].dtype)
    dims = [tuple(range(1, x.ndim)) or None for x in tensors]
    rows = [torch.linalg.vector_norm(x, dim=dim, dtype=wide) for x, dim in zip(tensors, dims, strict=True)]
    return torch.cat([norms.view(-1) for norms in rows]).to(dtype).square()


def row_squares_and_sums(tensors: Foreach, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """sum |x|^2 and sum x of each row of dimension 0, formed in `dtype`, or its complex counterpart.

    A tensor with ndim <= 1 is one row, with 0 for sum x. One vector over all rows for each of the two.
    """
    squares, sums = [], []
    for x in tensors:
        wide, dim = x.to(torch.promote_types(x.dtype, dtype)), tuple(range(1, x.ndim))
        squares.append(torch.linalg.vector_norm(wide, dim=dim or None).square().view(-1))
        sums.append(wide.sum(dim) if dim else wide.new_zeros(1))
    return torch.cat(squares), torch.cat(sums)


def root(squares: Tensor) -> Tensor:
    """Square root whose derivative at zero is zero, as a norm's."""
    if not torch.is_grad_enabled():
        return squares.sqrt()
    zero = squares == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squares).sqrt())


def total(vector: Tensor) -> Tensor:
    """The sum of a vector, 0-dim: on a CPU in parts so short that torch gives each to one thread.

    A longer one would depend on the number of threads in its last bits.
    """
    if vector.device.type != "cpu" or len(vector) <= PART:
        return vector.sum()
    return torch.stack([part.sum() for part in vector.split(PART)]).sum()


def parts_sums(vector: Tensor, counts: list[int], on_host: bool) -> Tensor:
    """The sum of each of N consecutive parts of a vector, shape (N,)."""
    if counts.count(1) == len(counts):
        return vector
    if on_host:  # elsewhere the order of the additions would be left to chance
        owner = torch.tensor(range(len(counts)), device="cpu").repeat_interleave(torch.tensor(counts, device="cpu"))
        return vector.new_zeros(len(counts)).index_add_(0, owner, vector)
    return torch.stack([part.sum() for part in vector.split(counts)])
