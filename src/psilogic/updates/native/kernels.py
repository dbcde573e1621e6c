"""Compiled kernels for a CPU: sums and update, one call and one pass over memory for all tensors of a dtype.

The folder `cpp` is compiled at installation, or before in a wheel; without a compiler, or not on Linux, there are none.
"""

from array import array
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import accumulate
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from psilogic.decision import Step
from psilogic.tensors.memory import addresses, uniform
from psilogic.tensors.norms import Foreach
from psilogic.updates.types import Tensors

NO_DETECTOR = (None,) * 6
REPEATED = -1
DTYPES = {torch.float32, torch.float64, torch.bfloat16}


def _load() -> Any:
    """The kernels for the instructions that torch uses, or for any processor; None if there are none."""
    for capability in (torch.backends.cpu.get_cpu_capability().lower(), "default"):
        with suppress(ImportError):
            return import_module(f"psilogic.updates.native.kernels_{capability}")
    return None


kernels = _load()


def supports(columns: Tensors, by_rows: bool) -> bool:
    """Whether the kernels can update these tensors, which are on the CPU."""
    on_host = all(all(map(attrgetter("is_cpu"), xs)) for xs in columns)
    return kernels is not None and on_host and uniform(DTYPES, columns, by_rows)


def unit_statistics(
    grads: Foreach, params: Foreach | None, units: list[int], with_sums: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Sums over the units of N tensors that `supports` accepts, in float64.

    Args:
        grads: the gradients.
        params: the parameters; None if their squares are not needed.
        units: the number of units of each tensor: 1 for the whole tensor, or its rows of dimension 0.
        with_sums: whether to return the sums of the gradients.

    Returns:
        For each of the U units the sum of |g|^2; the sum of g, 0 for tensors with at most one dimension; and the sum
        of |theta|^2. The order of the additions does not depend on the number of threads.
    """
    squares = torch.zeros(sum(units), dtype=torch.float64, device="cpu")
    sums = torch.zeros_like(squares) if with_sums else None
    _run(kernels.row_sums, [grads], units, [squares, sums])
    if sums is not None:
        single = [unit for unit, g in zip(accumulate(units, initial=0), grads, strict=False) if g.ndim <= 1]
        sums[torch.tensor(single, dtype=torch.int64, device="cpu")] = 0.0
    of_params = None if params is None else torch.zeros_like(squares)
    if params is not None:
        _run(kernels.row_sums, [params], units, [of_params, None])
    return squares, sums, of_params


def update_(
    tensors: Tensors,
    step: Step,
    units: list[int],
    mean: Tensor | None = None,
    scale: Tensor | None = None,
    by_rows: tuple[float, bool] | None = None,
    waits: Any = None,
    detector: Sequence[Any] = NO_DETECTOR,
) -> "array[float]":
    """One step for N tensors that `supports` accepts, in place: mean and scale, decay, quantum decay, Adam.

    Args:
        tensors: the tensors, with unprocessed gradients.
        step: the step to take.
        units: the number of units of each tensor: 1 for the whole tensor, or its rows of dimension 0.
        mean: subtracted from the gradients, unit by unit, shape (U,); None for 0.
        scale: multiplies them after that, shape (U,); None for 1.
        by_rows: the largest ratio of a unit's gradient norm to its parameter norm, 0 for any, and whether the mean of
            each row is subtracted in tensors with more than one dimension. Then mean and scale are results: each unit
            is summed just before it is updated, so that the second read is from cache.
        waits: with a detector, a result for each tensor: 1 if it was only summed, since it is likely to fire; 2 if
            it may fire, or was 2 before; otherwise 0. If all are 0, the scalars of the states have their new values.
        detector: as `DetectorTables` in detector.h.

    Returns:
        The norm of each tensor's processed gradient; not if mean and scale are given.
    """
    norms = array("d", bytes(8 * len(units)))
    kernel, agc_clip, centered = kernels.update_, None, None
    if by_rows is not None:
        kernel, agc_clip = kernels.process_and_update_, by_rows[0]
        centered = array("q", [by_rows[1] and g.ndim > 1 for g in tensors.grads])
    _run(kernel, tensors, units, [centered, waits, *step, agc_clip, mean, scale, norms, *detector])
    torch.autograd.graph.increment_version([*tensors.params, *tensors.exp_avgs, *tensors.exp_avg_sqs])
    return norms


def cancel_(
    tensors: Tensors, step: Step, lost: Tensor, mean: Tensor | None, scale: Tensor | None, units: list[int]
) -> None:
    """Correct an update whose decay was too small: theta <- theta - share (theta + u).

    With u, Adam's step, theta + u is the parameter after decay and quantum decay. The quantum decay is undone:
    share = 1 - (1 - lost) / (1 - quantum_rate tanh|g|), which is `lost` without quantum decay. Here `lost` is for each
    tensor the fraction by which the decayed parameter must still shrink, shape (N,). Gradients are read only for
    quantum decay. The other arguments are those of the update.
    """
    step = step._replace(decay=lost)
    _run(kernels.cancel_, tensors, units, [None, None, *step, None, mean, scale, None, *NO_DETECTOR])
    torch.autograd.graph.increment_version(tensors.params)


def _run(kernel: Any, columns: Sequence[Foreach], units: list[int], entries: Sequence[Any]) -> None:
    """Call a kernel with the size of an element (it defines the dtype), threads, tensors, and its arrays' addresses.

    Those of tensors, their sizes and units, and the other entries of its table; 0 for None, and REPEATED for a number,
    which the kernel repeats for each tensor.
    """
    tensors, places, numbers, kept = columns[0], [], [], []  # vectors must live until the kernel has returned
    of_tensors = [*map(addresses, columns), array("q", map(Tensor.numel, tensors)), array("q", units)]
    for x in (*of_tensors, *entries):
        if x is None:
            places.append(0)
        elif isinstance(x, array):
            places.append(x.buffer_info()[0])
        elif isinstance(x, Tensor) and x.ndim:
            kept.append(x := x.contiguous())
            places.append(x.data_ptr())
        else:
            places.append(REPEATED)
            numbers.append(float(x))
    table, repeated = array("q", places).tobytes(), array("d", numbers).tobytes()
    kernel(tensors[0].itemsize, torch.get_num_threads(), len(units), table, repeated)
