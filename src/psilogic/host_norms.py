"""Sums over tensors in host memory, where calls cost more than elements and float64 is at hand."""

import torch
from torch import Tensor

from psilogic.norms import Foreach, accumulation_dtype, flat, row_squares_and_sums

SHORT, STACK = 1 << 12, 1 << 14
"""Up to so many elements a tensor is not worth a call of its own; how many elements are stacked for one."""
PART = 1 << 20
"""The most elements whose squares are summed in float32."""
CENTRED = 0.5
"""From this share of a row's squares on that its mean makes up, what remains is not left to sums in float32."""


def squares(tensors: Foreach) -> Tensor:
    """The sum of |x|^2 of each real tensor, shape (N,), in float64: short ones together, long ones in parts."""
    by_shape: dict[torch.Size, list[int]] = {}
    index: list[int] = []
    sums: Foreach = []
    for i, x in enumerate(tensors):
        numel = x.numel()
        if numel <= SHORT:
            by_shape.setdefault(x.shape, []).append(i)
            continue
        parts = flat(x).split(PART) if numel > PART else (flat(x),)
        index += [i] * len(parts)
        sums += map(_square, parts)
    vectors = [torch.stack(sums).double()] if sums else []
    for shape, positions in by_shape.items():
        count = max(1, STACK // max(1, shape.numel()))
        for start in range(0, len(positions), count):
            batch = positions[start : start + count]
            rows = torch.stack([tensors[i] for i in batch]).reshape(len(batch), shape.numel())
            vectors.append(_row_norms(rows).double().square())
            index += batch
    return torch.zeros(len(tensors), dtype=torch.float64).index_add_(0, torch.tensor(index), torch.cat(vectors))


def row_squares(tensors: Foreach) -> Tensor:
    """The sum of |x|^2 of each row of dimension 0, or of a whole tensor when ndim <= 1: shape (U,), in float64."""
    if all(x.ndim <= 1 for x in tensors):
        return squares(tensors)
    return _with_single([_row_norms(x) if x.ndim > 1 else x for x in tensors], tensors).double().square()


def _with_single(norms: Foreach, tensors: Foreach) -> Tensor:
    """The norms of all rows, shape (U,), when those of tensors with rows are known."""
    single = [i for i, x in enumerate(tensors) if x.ndim <= 1]
    if single:
        of_single = squares([tensors[i] for i in single]).sqrt().to(accumulation_dtype(tensors[0].dtype))
        for i, norm in zip(single, of_single.split(1), strict=True):
            norms[i] = norm
    return torch.cat(norms)


def row_squares_and_row_sums(tensors: Foreach) -> tuple[Tensor, Tensor]:
    """sum |x|^2 and sum x of each row of dimension 0, shape (U,), in float64; sum x is 0 for a tensor without rows.

    What is left of a row without its mean is a difference of the two. Where float32 would not do for it, the sums are
    formed in float64.
    """
    if all(x.ndim <= 1 for x in tensors):
        return squares(tensors), torch.zeros(len(tensors), dtype=torch.float64)
    dtype = accumulation_dtype(tensors[0].dtype)
    zero = torch.zeros(1, dtype=dtype)
    norms, sums = list(tensors), [zero] * len(tensors)
    for i, x in enumerate(tensors):
        if x.ndim > 1:  # one after the other, while x is in cache
            norms[i], sums[i] = _row_norms(x), x.sum(tuple(range(1, x.ndim)), dtype=dtype)
    counts = list(map(len, sums))
    by_unit, of_units = _with_single(norms, tensors).double().square(), torch.cat(sums).double()
    numel = torch.tensor([x.numel() // n if n else 0 for x, n in zip(tensors, counts, strict=True)])
    share = of_units.square() / numel.repeat_interleave(torch.tensor(counts))
    doubtful = share > CENTRED * by_unit
    if dtype == torch.float32 and doubtful.any():
        parts = zip(tensors, *(v.split(counts) for v in (doubtful, by_unit, of_units)), strict=True)
        for x, doubt, of_squares, of_sums in parts:
            if x.ndim > 1 and doubt.any():
                exact = row_squares_and_sums([x], torch.float64)
                of_squares.copy_(exact[0]), of_sums.copy_(exact[1])
    return by_unit, of_units


def _square(x: Tensor) -> Tensor:
    """The sum of |x|^2 of a flat tensor, 0-dim, in the dtype in which sums are formed.

    A dot product is faster than a norm and in float32 more exact.
    """
    dtype = accumulation_dtype(x.dtype)
    return torch.dot(x, x) if x.dtype == dtype else torch.linalg.vector_norm(x, dtype=dtype).square()


def _row_norms(x: Tensor) -> Tensor:
    """||x||_2 of each row of dimension 0."""
    norms: Tensor = torch.linalg.vector_norm(x, dim=tuple(range(1, x.ndim)), dtype=accumulation_dtype(x.dtype))
    return norms
