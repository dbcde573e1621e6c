"""Sums over tensors in host memory, where calls cost more than elements and float64 is available."""

from collections.abc import Callable

import torch
from torch import Tensor

from psilogic.tensors.memory import flat
from psilogic.tensors.norms import Foreach, accumulation_dtype

SHORT, STACK = 1 << 12, 1 << 14
"""Tensors of at most SHORT elements are stacked, up to STACK elements for one call."""
PART = 1 << 17
"""The most elements whose squares are summed in float32."""
CENTERED = 0.5
"""If the mean makes up this fraction of a row's squares, the remainder is computed in float64 instead of float32."""


def squares(tensors: Foreach) -> Tensor:
    """The sum of |x|^2 of each real tensor, shape (N,), in float64: short ones together, long ones in short lines."""
    by_shape: dict[torch.Size, list[int]] = {}
    index: list[int] = []
    norms: Foreach = []
    dtype = accumulation_dtype(tensors[0].dtype)
    for i, x in enumerate(tensors):
        numel = x.numel()
        if numel <= SHORT:
            by_shape.setdefault(x.shape, []).append(i)
            continue
        # No dot product: on some processors its last bits depend on the tensor's address.
        elements, rest = flat(x), numel % SHORT
        if rest:
            norms.append(torch.linalg.vector_norm(elements[-rest:].view(1, -1), dim=1, dtype=dtype))
        norms.append(torch.linalg.vector_norm(elements[: numel - rest].view(-1, SHORT), dim=1, dtype=dtype))
        index += [i] * (-(-numel // SHORT))
    vectors = [torch.cat(norms).double().square()] if norms else []
    for shape, positions in by_shape.items():
        count = max(1, STACK // max(1, shape.numel()))
        for start in range(0, len(positions), count):
            batch = positions[start : start + count]
            rows = torch.stack([tensors[i] for i in batch]).reshape(len(batch), shape.numel())
            vectors.append(_of_rows(rows, _squares))
            index += batch
    sums = torch.zeros(len(tensors), dtype=torch.float64, device="cpu")
    return sums.index_add_(0, torch.tensor(index, device="cpu"), torch.cat(vectors))


def row_sums(tensors: Foreach, with_sums: bool) -> tuple[Tensor, Tensor | None]:
    """sum |x|^2 and, if asked, sum x of each row of dimension 0, shape (U,), in float64.

    A tensor with ndim <= 1 is one row, with 0 for sum x. A row's squares without its mean are a difference of the two:
    where float32 is not precise enough for it, the sums are computed in float64.
    """
    single = [x for x in tensors if x.ndim <= 1]
    of_single = iter(squares(single).split(1) if single else ())
    zero = torch.zeros(1, dtype=torch.float64, device="cpu")
    by_row, sums = [], []
    for x in tensors:  # squares and sums of one tensor, while it is in cache
        by_row.append(next(of_single) if x.ndim <= 1 else _of_rows(x, _squares))
        if with_sums:
            sums.append(zero if x.ndim <= 1 else _of_rows(x, torch.sum))
    if with_sums and len(single) < len(tensors) and tensors[0].dtype != torch.float64:
        matrices = [i for i, x in enumerate(tensors) if x.ndim > 1]
        _recompute_(*([xs[i] for i in matrices] for xs in (tensors, by_row, sums)))
    return torch.cat(by_row), torch.cat(sums) if with_sums else None


def _recompute_(matrices: Foreach, by_row: Foreach, sums: Foreach) -> None:
    """Compute in float64 the sums of rows whose mean makes up too much of their squares for float32."""
    lengths = torch.cat([torch.full_like(x, m.shape[1:].numel()) for x, m in zip(sums, matrices, strict=True)])
    doubtful = torch.cat(sums).square() > CENTERED * lengths * torch.cat(by_row)
    if not doubtful.any():
        return
    parts = doubtful.split(list(map(len, matrices)))
    for x, of_squares, of_sums, doubt in zip(matrices, by_row, sums, parts, strict=True):
        count = max(1, PART // max(1, x.shape[1:].numel()))
        for rows in doubt.nonzero().flatten().split(count) if doubt.any() else ():
            wide, dims = x[rows].double(), tuple(range(1, x.ndim))
            of_squares[rows], of_sums[rows] = torch.linalg.vector_norm(wide, dim=dims).square(), wide.sum(dims)


def _squares(x: Tensor, dims: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    result: Tensor = torch.linalg.vector_norm(x, dim=dims, dtype=dtype).double().square()
    return result


def _of_rows(x: Tensor, sums: Callable[..., Tensor]) -> Tensor:
    """Sums over each row of dimension 0, in float64, over parts of long rows."""
    parts = [x] if x.numel() <= PART * len(x) else x.flatten(1).split(PART, dim=1)
    vectors = [sums(x, tuple(range(1, x.ndim)), dtype=accumulation_dtype(x.dtype)).double() for x in parts]
    return vectors[0] if len(vectors) == 1 else torch.stack(vectors).sum(0)
