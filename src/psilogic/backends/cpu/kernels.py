"""Compiled kernels for a CPU: sums and update, one call and one pass over memory for all tensors of a dtype.

The folder `cpp` is compiled at installation, or before in a wheel; without a compiler, or not on Linux, there are none.
"""

from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import IntEnum
from importlib import import_module
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.step import Step, Tensors
from psilogic.tensors.memory import addresses, uniform
from psilogic.tensors.norms import TensorList

DTYPES = frozenset({torch.float32, torch.float64, torch.bfloat16})
REPEATED = -1
"""The address of a number that the kernel repeats for each tensor."""


class Outcome(IntEnum):
    """What a pass with a detector did with a tensor, as `Outcome` in update.h."""

    UPDATED = 0  # it does not fire
    DEFERRED = 1  # only its gradient was summed, since it is likely to fire
    MAY_FIRE = 2  # it was updated as if it did not fire


class SumArguments(NamedTuple):
    """The table of the sums, as `RowTables` in sums.h, which says what each entry is."""

    tensors: Any
    numels: Any
    units: Any
    squares: Any
    elements: Any


class UpdateArguments(NamedTuple):
    """The table of an update, as `UpdateTables` in update.h, which says what each entry is.

    An entry is an array, a vector, a number that all tensors share, or None.
    """

    params: Any
    grads: Any
    exp_avgs: Any
    exp_avg_sqs: Any
    numels: Any
    units: Any
    t: Any
    decay: Any
    quantum_rate: Any
    lr: Any
    weight_decay: Any
    eps: Any
    beta1: Any
    beta2: Any
    centered: Any = None
    agc_clip: Any = None
    mean: Any = None
    scale: Any = None
    norms: Any = None
    outcomes: Any = None
    scalars: Any = None
    relative: Any = None
    gamma: Any = None
    t_warm: Any = None
    tau: Any = None
    adaptive: Any = None


class Detector(NamedTuple):
    """What an update with a detector reads in addition to the tensors' step."""

    scalars: Any  # the addresses of each of the states' scalars, name after name
    relative: bool
    gamma: Any
    t_warm: float
    tau: Any  # tau_scale, or chaos_tau if that is the threshold
    adaptive: bool


def _load() -> Any:
    """The kernels for the instructions that torch uses, or for any processor; None if there are none.

    Raises:
        RuntimeError: they were compiled from other sources, whose tables have other entries.
    """
    for capability in (torch.backends.cpu.get_cpu_capability().lower(), "default"):
        with suppress(ImportError):
            module = import_module(f"psilogic.backends.cpu.kernels_{capability}")
            entries = (tuple(module.SUM_ENTRIES.split()), tuple(module.UPDATE_ENTRIES.split()))
            if entries != (SumArguments._fields, UpdateArguments._fields):
                raise RuntimeError(f"{module.__file__} was compiled from other sources than those here; install again")
            return module
    return None


kernels = _load()


def supports(columns: Tensors, by_rows: bool) -> bool:
    """Whether the kernels can update these tensors, which are on the CPU."""
    if kernels is None:
        return False
    on_host = all(all(map(attrgetter("is_cpu"), xs)) for xs in columns)
    return on_host and uniform(DTYPES, columns, by_rows)


def unit_statistics(
    grads: TensorList, params: TensorList | None, units: list[int], with_sums: bool
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
    squares = torch.zeros(sum(units), dtype=torch.float64, device="cpu")
    sums = torch.zeros_like(squares) if with_sums else None
    arguments = SumArguments(
        tensors=addresses(tensors),
        numels=array("q", map(Tensor.numel, tensors)),
        units=array("q", units),
        squares=squares,
        elements=sums,
    )
    _call(kernels.row_sums, tensors, arguments)
    return squares, sums


def update_(
    tensors: Tensors,
    step: Step,
    units: list[int],
    mean: Tensor | None = None,
    scale: Tensor | None = None,
    agc_clip: float = 0.0,
    centralizes: bool = False,
    outcomes: "array[int] | None" = None,
    detector: Detector | None = None,
) -> "array[float]":
    """One step for N tensors that `supports` accepts, in place: mean and scale, decay, quantum decay, Adam.

    Args:
        tensors: the tensors, with unprocessed gradients.
        step: the step to take.
        units: the number of units of each tensor: 1 for the whole tensor, or its rows of dimension 0.
        mean: subtracted from the gradients, unit by unit, shape (U,); None for 0.
        scale: multiplies them after that, shape (U,); None for 1.
        agc_clip: the largest ratio of a unit's gradient norm to its parameter norm; 0 for any.
        centralizes: whether the mean of each row is subtracted in tensors with more than one dimension. With this or
            `agc_clip` mean and scale are results: each unit is summed just before it is updated, so that the second
            read is from cache.
        outcomes: with a detector, a result for each tensor, an `Outcome`; a tensor that was MAY_FIRE before is not
            changed to UPDATED. If all are UPDATED, the scalars of the states have their new values.
        detector: None where the step is decided.

    Returns:
        The norm of each tensor's processed gradient; not if mean and scale are given.
    """
    norms = array("d", bytes(8 * len(units)))
    extra: dict[str, Any] = {}
    kernel = kernels.update_
    if agc_clip > 0 or centralizes:
        kernel = kernels.process_and_update_
        extra["agc_clip"] = agc_clip
        extra["centered"] = array("q", [centralizes and g.ndim > 1 for g in tensors.grads])
    if detector is not None:
        extra.update(detector._asdict())
    arguments = _arguments(tensors, step, units, mean=mean, scale=scale, norms=norms, outcomes=outcomes, **extra)
    _call(kernel, tensors.params, arguments)
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
    arguments = _arguments(tensors, step._replace(decay=lost), units, mean=mean, scale=scale)
    _call(kernels.cancel_, tensors.params, arguments)
    torch.autograd.graph.increment_version(tensors.params)


def _arguments(tensors: Tensors, step: Step, units: list[int], **extra: Any) -> UpdateArguments:
    """The table of an update of these tensors by a step."""
    return UpdateArguments(
        params=addresses(tensors.params),
        grads=addresses(tensors.grads),
        exp_avgs=addresses(tensors.exp_avgs),
        exp_avg_sqs=addresses(tensors.exp_avg_sqs),
        numels=array("q", map(Tensor.numel, tensors.params)),
        units=array("q", units),
        t=step.t,
        decay=step.decay,
        quantum_rate=step.quantum_rate,
        lr=step.lr,
        weight_decay=step.weight_decay,
        eps=step.eps,
        beta1=step.beta1,
        beta2=step.beta2,
        **extra,
    )


def _call(kernel: Callable[..., None], tensors: TensorList, arguments: Iterable[Any]) -> None:
    """Call a kernel with the size of an element (it defines the dtype), threads, tensors, and its arguments' addresses.

    The address of None is 0, that of a number REPEATED.
    """
    table = array("q")
    numbers = array("d")
    kept = []  # vectors must live until the kernel has returned
    for argument in arguments:
        if argument is None:
            table.append(0)
        elif isinstance(argument, array):
            table.append(argument.buffer_info()[0])
        elif isinstance(argument, Tensor) and argument.ndim:
            vector = argument.contiguous()
            kept.append(vector)
            table.append(vector.data_ptr())
        else:
            table.append(REPEATED)
            numbers.append(float(argument))
    threads = torch.get_num_threads()
    kernel(tensors[0].itemsize, threads, len(tensors), table.tobytes(), numbers.tobytes())
