"""Sums over the units of tensors by a compiled kernel: one call and one pass over memory for all tensors of a dtype."""

from array import array
from itertools import accumulate

import torch
from torch import Tensor

from psilogic.backends.cpu import kernels
from psilogic.backends.cpu.order import in_lines
from psilogic.tensors.memory import addresses
from psilogic.tensors.norms import TensorList


def unit_statistics(
    grads: TensorList, params: TensorList | None, units: list[int], with_sums: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Sums over the units of N tensors that `supports` accepts, in float64.

    Args:
        grads: the gradients, in any order of memory.
        params: the parameters, likewise; None if their squares are not needed.
        units: the number of units of each tensor: 1 for the whole tensor, or its rows of dimension 0.
        with_sums: whether to return the sums of the gradients.

    Returns:
        For each of the U units the sum of |g|^2; the sum of g, 0 for tensors with at most one dimension; and the sum
        of |theta|^2. The order of the additions does not depend on the number of threads.
    """
    squares, sums = _row_sums(grads, units, with_sums)
    if sums is not None:
        first_units = accumulate(units, initial=0)
        single = [unit for unit, g in zip(first_units, grads, strict=False) if g.ndim <= 1]
        sums[torch.tensor(single, dtype=torch.int64, device="cpu")] = 0.0
    param_squares = None
    if params is not None:
        param_squares, _ = _row_sums(params, units, with_sums=False)
    return squares, sums, param_squares


def _row_sums(tensors: TensorList, units: list[int], with_sums: bool) -> tuple[Tensor, Tensor | None]:
    """The sums of squares of the tensors' units, and those of their elements if asked."""
    tensors = in_lines(tensors, units)
    squares = torch.zeros(sum(units), dtype=torch.float64, device="cpu")
    sums = torch.zeros_like(squares) if with_sums else None
    arguments = kernels.SumArguments(
        tensors=addresses(tensors),
        numels=array("q", map(Tensor.numel, tensors)),
        units=array("q", units),
        squares=squares,
        elements=sums,
    )
    kernels.call(kernels.kernels.row_sums, tensors, arguments)
    return squares, sums
