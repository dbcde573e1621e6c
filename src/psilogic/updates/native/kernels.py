"""The kernels of our own for a CPU: sums and update, one call and one pass over memory for all tensors of a dtype.

What is in the folder `cpp` is compiled when the package is installed. Where it was not (no compiler, another
system than Linux on x86-64), or the processor lacks what it was compiled for, `kernels` is None and `supports` says no.
"""

from array import array
from collections.abc import Sequence
from importlib import import_module
from itertools import accumulate
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from psilogic.tensors.memory import addresses, alike, dtypes, ordinary
from psilogic.tensors.norms import Foreach
from psilogic.updates.work import Step, Tensors

DTYPES = {torch.float32, torch.float64, torch.bfloat16}


def _load() -> Any:
    """The kernels that were compiled for this processor; None where there are none."""
    capability = torch.backends.cpu.get_cpu_capability().lower()
    try:
        return import_module(f"psilogic.updates.native.kernels_{capability}")
    except ImportError:
        return None


kernels = _load()


def supports(columns: Tensors, by_rows: bool) -> bool:
    """Whether the kernels can treat tensors of one dtype on the CPU.

    They can when they are ordinary tensors of which those of a parameter lie in memory alike and without gaps; where
    rows are treated, one row after the other.
    """
    found = dtypes(columns)
    if kernels is None or len(found) > 1 or not found <= DTYPES or not ordinary(columns):
        return False
    on_host = all(all(map(attrgetter("is_cpu"), xs)) for xs in columns)
    return on_host and alike(columns, by_rows)


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


def update_(
    tensors: Tensors,
    step: Step,
    mean: Tensor | None,
    scale: Tensor | None,
    units: list[int],
    waits: list[bool] | None = None,
) -> Tensor:
    """One step for N tensors that `supports` accepts, in place: mean and scale, decay, quantum decay, Adam.

    Args:
        tensors: the tensors, with gradients as they are.
        step: what to do to them.
        mean: what the gradients lose, unit by unit, shape (U,); None for 0.
        scale: what they are multiplied by after that, shape (U,); None for 1.
        units: the number of units of each tensor: 1 for the whole tensor, else its rows of dimension 0.
        waits: of each tensor whether it is only summed; None for no tensor.

    Returns:
        The sum of |g|^2 of each tensor, of gradients as they were, shape (N,), in float64.
    """
    squares = torch.zeros(len(units), dtype=torch.float64, device="cpu")
    _run(kernels.update_, tensors, units, step, [step.decay, step.quantum_rate, mean, scale, squares], waits=waits)
    torch.autograd.graph.increment_version([*tensors.params, *tensors.exp_avgs, *tensors.exp_avg_sqs])
    return squares


def process_and_update_(
    tensors: Tensors, step: Step, units: list[int], waits: list[bool], agc_clip: float, grad_centralize: bool
) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """One step for N tensors that `supports` accepts, in place: AGC, centralization, decay, quantum decay, Adam.

    A unit is summed just before it is updated, so that it is read from cache for the second time.

    Args:
        tensors: the tensors, with gradients as they are.
        step: what to do to them.
        units: the number of units of each tensor: 1 for the whole tensor, else its rows of dimension 0.
        waits: of each tensor whether it is only summed.
        agc_clip: the largest ratio of gradient norm to parameter norm of a unit; 0 for any.
        grad_centralize: whether rows of tensors with more than one dimension lose their mean.

    Returns:
        What the gradients lose, unit by unit, and what they are multiplied by after that, shape (U,), None where nobody
        asks for it afterwards, since no tensor waits and there is no quantum decay; and the sum of |g|^2 of each
        tensor, of gradients as they become, shape (N,). All in float64.
    """
    squares = torch.zeros(len(units), dtype=torch.float64, device="cpu")
    mean = squares.new_empty(sum(units)) if step.quantum_rate is not None or any(waits) else None
    scale = None if mean is None else torch.empty_like(mean)
    centered = [grad_centralize and g.ndim > 1 for g in tensors.grads]
    vectors = [step.decay, step.quantum_rate, mean, scale, squares]
    _run(kernels.process_and_update_, tensors, units, step, vectors, centered, waits, agc_clip)
    torch.autograd.graph.increment_version([*tensors.params, *tensors.exp_avgs, *tensors.exp_avg_sqs])
    return mean, scale, squares


def cancel_(
    tensors: Tensors, step: Step, lost: Tensor, mean: Tensor | None, scale: Tensor | None, units: list[int]
) -> None:
    """What is missing after an update with too small a decay: theta <- theta - share (theta + u).

    With u, what Adam subtracted, theta + u is what decay and quantum decay had left. What the latter took comes back:
    share = 1 - (1 - lost) / (1 - quantum_rate tanh|g|), which is `lost` without it.

    Args:
        tensors: the tensors after the update; gradients are read only for the quantum decay.
        step: what was done to them.
        lost: of each tensor the share that it loses of what the decay had left, shape (N,).
        mean: what the gradients lost, unit by unit, shape (U,); None for 0.
        scale: what they were multiplied by after that, shape (U,); None for 1.
        units: the number of units of each tensor.
    """
    _run(kernels.cancel_, tensors, units, step, [lost, step.quantum_rate, mean, scale, None])
    torch.autograd.graph.increment_version(tensors.params)


def _run(
    kernel: Any,
    tensors: Tensors,
    units: list[int],
    step: Step,
    vectors: Sequence[Tensor | None],
    centered: list[bool] | None = None,
    waits: list[bool] | None = None,
    agc_clip: float = 0.0,
) -> None:
    """Call a kernel with its `UpdateTables`."""
    numels = array("q", map(Tensor.numel, tensors.params))
    integers = [*map(addresses, tensors), numels, array("q", units)]
    integers += [array("q") if x is None else array("q", x) for x in (centered, waits)]
    # Each in its own memory, one number after the other, until the kernel has returned.
    vectors = [None if x is None else x.contiguous() for x in (step.t, *vectors)]
    kernel(*_common(tensors.params), _table(integers, vectors), float(step.lr), *step.betas, step.eps, agc_clip)


def _row_sums(tensors: Foreach, units: list[int], with_sums: bool) -> tuple[Tensor, Tensor | None]:
    """The sum of |x|^2 of each unit of N tensors, and that of x if it is wanted."""
    squares = torch.zeros(sum(units), dtype=torch.float64, device="cpu")
    sums = torch.zeros_like(squares) if with_sums else None
    integers = [addresses(tensors), array("q", map(Tensor.numel, tensors)), array("q", units)]
    kernels.row_sums(*_common(tensors), _table(integers, [squares, sums]))
    return squares, sums


def _common(tensors: Foreach) -> tuple[int, int, int]:
    """What every kernel is told first: the size of an element, which says the dtype; threads; tensors."""
    return tensors[0].itemsize, torch.get_num_threads(), len(tensors)


def _table(integers: Sequence["array[int]"], vectors: Sequence[Tensor | None]) -> bytes:
    """Where a kernel finds its numbers, 0 for what is not there; they must outlive the call."""
    addresses = [numbers.buffer_info()[0] if numbers else 0 for numbers in integers]
    return array("q", [*addresses, *(0 if x is None else x.data_ptr() for x in vectors)]).tobytes()
