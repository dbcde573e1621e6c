"""The update on a CPU through kernels of our own: one call, and one pass over memory, for all tensors of a dtype.

`native_kernels.cpp` is compiled when the package is installed. Where it was not (no compiler, another system), or the
processor lacks what it was compiled for, `kernels` is None and `supports` says no.
"""

import platform
from array import array
from itertools import accumulate
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from psilogic.norms import Foreach
from psilogic.updates.operands import Step, Tensors, alike, ordinary

DTYPES = {torch.float32, torch.float64, torch.bfloat16}


def _load() -> ModuleType | None:
    """The compiled kernels, if they are there and can run here."""
    if platform.machine() == "x86_64" and not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        return None
    try:
        from psilogic.updates import native_kernels
    except ImportError:
        return None
    return native_kernels


kernels: Any = _load()


def supports(tensors: Tensors, by_rows: bool) -> bool:
    """Whether `update_` and `unit_statistics` can treat tensors of one dtype on the CPU.

    They can when they are ordinary tensors of which those of a parameter lie in memory alike and without gaps; where
    rows are treated, one row after the other.
    """
    dtypes = {x.dtype for xs in tensors for x in xs}
    return (
        kernels is not None and len(dtypes) == 1 and dtypes <= DTYPES and ordinary(tensors) and alike(tensors, by_rows)
    )


def unit_statistics(
    grads: Foreach, params: Foreach | None, units: list[int], with_sums: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Sums over the units of N tensors that `supports` accepts, in float64.

    Args:
        grads: the gradients.
        params: the parameters, when their squares are wanted too.
        units: the number of units of each tensor: 1 for the whole tensor, else its rows of dimension 0.
        with_sums: whether the sums of the gradients are wanted too.

    Returns:
        Of each of the U units the sum of |g|^2; the sum of g, 0 for tensors with at most one dimension; and the sum of
        |theta|^2. The order of the additions does not depend on the number of threads.
    """
    squares, sums = _row_sums(grads, units, with_sums)
    if sums is not None:
        single = [unit for unit, g in zip(accumulate(units, initial=0), grads, strict=False) if g.ndim <= 1]
        sums[torch.tensor(single, dtype=torch.int64, device="cpu")] = 0.0
    return squares, sums, None if params is None else _row_sums(params, units, False)[0]


def update_(tensors: Tensors, step: Step, mean: Tensor | None, scale: Tensor | None, units: list[int]) -> Tensor:
    """One step for N tensors that `supports` accepts, in place: mean and scale, decay, quantum decay, Adam.

    Args:
        tensors: the tensors, with gradients as they are.
        step: what to do to them.
        mean: what the gradients lose, unit by unit, shape (U,); None for 0.
        scale: what they are multiplied by after that, shape (U,); None for 1.
        units: the number of units of each tensor: 1 for the whole tensor, else its rows of dimension 0.

    Returns:
        The sum of |g|^2 of each tensor, of gradients as they were, shape (N,), in float64.
    """
    params, _, exp_avgs, exp_avg_sqs = tensors
    squares = torch.empty(len(params), dtype=torch.float64, device="cpu")
    tables = [*map(_addresses, tensors), array("q", map(Tensor.numel, params)), array("q", units)]
    vectors = [None if x is None else x.contiguous() for x in (step.t, step.decay, step.quantum_rate, mean, scale)]
    kernels.update_(
        *_common(params), *_addresses_of(tables, [*vectors, squares]), float(step.lr), *step.betas, step.eps
    )
    torch.autograd.graph.increment_version([*params, *exp_avgs, *exp_avg_sqs])
    return squares


def cancel_(tensors: Tensors, step: Step, share: Tensor) -> None:
    """What is missing after `update_` with too small a decay: theta' <- theta' - share (theta' + u).

    With u what Adam subtracted, theta' + u is the parameter after its decay.

    Args:
        tensors: the tensors after the update; gradients are not read.
        step: what was done to them.
        share: of each tensor what it should have lost besides, in proportion to what was left, shape (N,).
    """
    params, _, exp_avgs, exp_avg_sqs = tensors
    columns = map(_addresses, (params, exp_avgs, exp_avg_sqs))
    tables = [*columns, array("q", map(Tensor.numel, params)), array("q", [1] * len(params))]
    kernels.cancel_(*_common(params), *_addresses_of(tables, [step.t, share]), float(step.lr), *step.betas, step.eps)
    torch.autograd.graph.increment_version(params)


def _common(tensors: Foreach) -> tuple[int, int, int]:
    """What every kernel is told first: the dtype, by the size of its elements; threads; tensors."""
    return tensors[0].itemsize, torch.get_num_threads(), len(tensors)


def _row_sums(tensors: Foreach, units: list[int], with_sums: bool) -> tuple[Tensor, Tensor | None]:
    """The sum of |x|^2 of each unit of N tensors, and that of x if it is wanted."""
    squares = torch.empty(sum(units), dtype=torch.float64, device="cpu")
    sums = torch.empty_like(squares) if with_sums else None
    tables = [_addresses(tensors), array("q", map(Tensor.numel, tensors)), array("q", units)]
    kernels.row_sums(*_common(tensors), *_addresses_of(tables, [squares, sums]))
    return squares, sums


def _addresses(tensors: Foreach) -> "array[int]":
    return array("q", map(Tensor.data_ptr, tensors))


def _addresses_of(tables: list["array[int]"], vectors: list[Tensor | None]) -> list[int]:
    """Where the numbers lie that a kernel reads or writes, 0 for what is not there; they must outlive the call."""
    return [table.buffer_info()[0] for table in tables] + [0 if x is None else x.data_ptr() for x in vectors]
