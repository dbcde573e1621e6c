"""Sums over tensors in host memory, where calls cost more than elements and float64 is available."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from psilogic.tensors.memory import flat
from psilogic.tensors.norms import TensorList, accumulation_dtype

SHORT = 1 << 12
"""Tensors of at most this number of elements are stacked; longer ones are summed in lines of this length."""
STACK = 1 << 14
"""The most elements of a stack, for one call."""
PART = 1 << 17
"""The most elements whose squares are summed in float32."""
CENTERED = 0.5
"""If the mean makes up this fraction of a row's squares, the remainder is computed in float64 instead of float32."""


def squares(tensors: TensorList) -> Tensor:
    """The sum of |x|^2 of each real tensor, shape (N,), in float64: short ones together, long ones in short lines."""
    by_shape: dict[torch.Size, list[int]] = {}  # positions of short tensors
    owners: list[int] = []  # the tensor of each partial sum
    norms: TensorList = []
    for i, x in enumerate(tensors):
        if x.numel() <= SHORT:
            by_shape.setdefault(x.shape, []).append(i)
        else:
            norms += _norms_of_lines(x)
            owners += [i] * (-(-x.numel() // SHORT))
    vectors = []
    if norms:
        vectors.append(torch.cat(norms).double().square())
    for shape, positions in by_shape.items():
        count = max(1, STACK // max(1, shape.numel()))
        for start in range(0, len(positions), count):
            batch = positions[start : start + count]
            rows = torch.stack([tensors[i] for i in batch]).reshape(len(batch), shape.numel())
            vectors.append(_of_rows(rows, _squares))
            owners += batch
    sums = torch.zeros(len(tensors), dtype=torch.float64, device="cpu")
    return sums.index_add_(0, torch.tensor(owners, device="cpu"), torch.cat(vectors))


def _norms_of_lines(x: Tensor) -> TensorList:
    """The norms of a long tensor's lines of SHORT elements, after that of the rest, which is shorter.

    No dot product: on some processors its last bits depend on the tensor's address.
    """
    dtype = accumulation_dtype(x.dtype)
    elements = flat(x)
    rest = x.numel() % SHORT
    norms = []
    if rest:
        norms.append(torch.linalg.vector_norm(elements[-rest:].view(1, -1), dim=1, dtype=dtype))
    lines = elements[: x.numel() - rest].view(-1, SHORT)
    norms.append(torch.linalg.vector_norm(lines, dim=1, dtype=dtype))
    return norms


def row_sums(tensors: TensorList, with_sums: bool) -> tuple[Tensor, Tensor | None]:
    """sum |x|^2 and, if asked, sum x of each row of dimension 0, shape (U,), in float64.

    A tensor with ndim <= 1 is one row, with 0 for sum x. A row's squares without its mean are a difference of the two:
    where float32 is not precise enough for it, the sums are computed in float64.
    """
    single = [x for x in tensors if x.ndim <= 1]
    squares_of_single: Iterator[Tensor] = iter(())
    if single:
        squares_of_single = iter(squares(single).split(1))
    zero = torch.zeros(1, dtype=torch.float64, device="cpu")
    squares_by_row: TensorList = []
    sums_by_row: TensorList = []
    matrices: list[_Matrix] = []
    for x in tensors:  # squares and sums of one tensor, while it is in cache
        if x.ndim <= 1:
            squares_by_row.append(next(squares_of_single))
            sums_by_row.append(zero)
            continue
        row_squares = _of_rows(x, _squares)
        squares_by_row.append(row_squares)
        if with_sums:
            sums_of_rows = _of_rows(x, torch.sum)
            sums_by_row.append(sums_of_rows)
            matrices.append(_Matrix(x, row_squares, sums_of_rows))
    if not with_sums:
        return torch.cat(squares_by_row), None
    if matrices and tensors[0].dtype != torch.float64:
        _recompute_(matrices)
    return torch.cat(squares_by_row), torch.cat(sums_by_row)


class _Matrix(NamedTuple):
    """A tensor with rows, and the sums over each of them."""

    tensor: Tensor
    squares: Tensor
    sums: Tensor


def _recompute_(matrices: list[_Matrix]) -> None:
    """Compute in float64 the sums of rows whose mean makes up too much of their squares for float32."""
    squares_by_row: TensorList = []
    sums_by_row: TensorList = []
    lengths: TensorList = []
    for matrix in matrices:
        squares_by_row.append(matrix.squares)
        sums_by_row.append(matrix.sums)
        length = matrix.tensor.shape[1:].numel()
        lengths.append(torch.full_like(matrix.sums, length))
    doubtful = torch.cat(sums_by_row).square() > CENTERED * torch.cat(lengths) * torch.cat(squares_by_row)
    if not doubtful.any():
        return
    first = 0
    for matrix in matrices:
        end = first + len(matrix.tensor)
        _recompute_rows_(matrix, doubtful[first:end].nonzero().flatten())
        first = end


def _recompute_rows_(matrix: _Matrix, doubtful: Tensor) -> None:
    """Compute the sums of some rows in float64, not too many elements at once."""
    if not len(doubtful):
        return
    tensor = matrix.tensor
    dims = tuple(range(1, tensor.ndim))
    count = max(1, PART // max(1, tensor.shape[1:].numel()))
    for rows in doubtful.split(count):
        wide = tensor[rows].double()
        matrix.squares[rows] = torch.linalg.vector_norm(wide, dim=dims).square()
        matrix.sums[rows] = wide.sum(dims)


def _squares(x: Tensor, dims: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    result: Tensor = torch.linalg.vector_norm(x, dim=dims, dtype=dtype).double().square()
    return result


def _of_rows(x: Tensor, sums: Callable[..., Tensor]) -> Tensor:
    """Sums over each row of dimension 0, in float64, over parts of long rows."""
    dtype = accumulation_dtype(x.dtype)
    if x.numel() <= PART * len(x):
        return sums(x, tuple(range(1, x.ndim)), dtype=dtype).double()
    parts = x.flatten(1).split(PART, dim=1)
    vectors = [sums(part, (1,), dtype=dtype).double() for part in parts]
    if len(vectors) == 1:
        return vectors[0]
    return torch.stack(vectors).sum(0)
