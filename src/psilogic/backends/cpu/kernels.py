"""Compiled kernels for a CPU: an update or a whole step, one call and one pass over memory for all tensors of a dtype.

The folder `cpp` is compiled at installation, or before in a wheel; without a compiler, or not on Linux, there are none.
"""

from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.backends.cpu.order import Ordered, can_be_ordered, odd_tensors
from psilogic.step import BucketStep, Tensors
from psilogic.tensors.memory import addresses, have_one_dtype, ordinary
from psilogic.tensors.norms import TensorList
from psilogic.tensors.state import local_states
from psilogic.warmup import t_warm

DTYPES = ("bfloat16", "float16", "float32", "float64")
"""The dtypes of the kernels, in their order."""
POSITIONS = {getattr(torch, name): position for position, name in enumerate(DTYPES)}
ROUNDINGS = {"kahan": 1, "stochastic": 2}
"""Kinds of rounding other than to nearest, as `Rounding` in rounding.h."""


class Address(int):
    """Where an array begins in memory, as an argument of a kernel."""


class SumArguments(NamedTuple):
    """The table of the sums, as `RowTables` in sums.h, which says what each entry is."""

    tensors: Any
    numels: Any
    units: Any
    squares: Any
    elements: Any


class UpdateArguments(NamedTuple):
    """The table of an update or of a whole step, as `UpdateTables` in update.h, which says what each entry is.

    An entry is the address of an array, a number that all tensors share, or None.
    """

    params: Any
    grads: Any
    exp_avgs: Any
    exp_avg_sqs: Any
    errors: Any
    rounding: Any
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
    max_norm: Any = None
    maximize: Any = None
    scalars: Any = None
    relative: Any = None
    gamma: Any = None
    p_ext: Any = None
    max_cancel: Any = None
    quantum_decay: Any = None
    T_max: Any = None
    t_warm: Any = None
    tau: Any = None
    adaptive: Any = None
    pools: Any = None
    decisions: Any = None


def load_kernels() -> Any:
    """The kernels for the instructions that torch uses, or for any processor; None if there are none.

    Raises:
        RuntimeError: they were compiled from other sources, whose tables have other entries.
    """
    for capability in (torch.backends.cpu.get_cpu_capability().lower(), "default"):
        with suppress(ImportError):
            module = import_module(f"psilogic.backends.cpu.kernels_{capability}")
            found = [getattr(module, name, "").split() for name in ("DTYPES", "SUM_ENTRIES", "UPDATE_ENTRIES")]
            if found != [list(DTYPES), list(SumArguments._fields), list(UpdateArguments._fields)]:
                raise RuntimeError(f"{module.__file__} was compiled from other sources than those here; install again")
            return module
    return None


kernels = load_kernels()


def supports(columns: Tensors) -> bool:
    """Whether the kernels can update these tensors, which are on the CPU."""
    on_host = all(all(map(attrgetter("is_cpu"), xs)) for xs in columns)
    return on_host and have_one_dtype(POSITIONS, columns) and ordinary(columns) and can_be_ordered(columns)


def update_(work: BucketStep, mean: Tensor | None = None, scale: Tensor | None = None) -> None:
    """One step for the owned tensors of a bucket, in place: mean and scale, decay, quantum decay, Adam.

    Args:
        work: has the tensors, which `supports` accepts, with unprocessed gradients, and the step to take.
        mean: subtracted from the gradients, unit by unit, shape (U,); None for 0.
        scale: multiplies them after that, shape (U,); None for 1.
    """
    step = work.step
    ordered = _in_order(work)
    arguments = UpdateArguments(
        **_tensors(work, ordered),
        t=step.t,
        decay=step.decay,
        quantum_rate=step.quantum_rate,
        lr=step.lr,
        weight_decay=step.weight_decay,
        eps=step.eps,
        beta1=step.beta1,
        beta2=step.beta2,
        mean=mean,
        scale=scale,
    )
    call(kernels.update_, work.tensors.params, arguments)
    if ordered is not None:
        ordered.write_back()
    _note_changes(work)


def step_(work: BucketStep, scalars: Any, pools: list[int] | None, unit_vectors: Tensor | None, decisions: Any) -> int:
    """The whole step of a bucket's tensors, in place: sums, decision, update, and the scalars of the states.

    Args:
        work: has the tensors, which `supports` accepts, with unprocessed gradients, and the hyperparameters.
        scalars: the addresses of each of the states' scalars, name after name.
        pools: the pool of each tensor, in which norms count together; None if each is alone.
        unit_vectors: memory for the mean and the scale of each unit, shape (2, U), where quantum decay is corrected.
        decisions: memory for the quantities of `DECISION_ROWS`, shape (11, N); None if nobody observes them.

    Returns:
        The number of tensors that were updated before it was known that they fire, and corrected.
    """
    group = work.group
    beta1, beta2 = group["betas"]
    mean = None
    scale = None
    if unit_vectors is not None:
        mean, scale = unit_vectors
    centered = _which_are_centered(work)
    tau = group["chaos_tau"]
    if group["adaptive_tau"]:
        tau = group["tau_scale"]
    ordered = _in_order(work)
    arguments = UpdateArguments(
        **_tensors(work, ordered),
        t=None,
        decay=None,
        quantum_rate=None,
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        beta1=beta1,
        beta2=beta2,
        centered=centered,
        agc_clip=None if centered is None else group["agc_clip"],
        mean=mean,
        scale=scale,
        max_norm=group["max_grad_norm"],
        maximize=group["maximize"] or None,
        scalars=scalars,
        relative=group["chaos_signal"] == "relative",
        gamma=group["gamma"],
        p_ext=group["p_ext"],
        max_cancel=group["max_cancel"],
        quantum_decay=group["quantum_decay"],
        T_max=group["gamma_T_max"],
        t_warm=t_warm(group),
        tau=tau,
        adaptive=group["adaptive_tau"],
        pools=None if pools is None else array("q", pools),
        decisions=decisions,
    )
    corrected: int = call(kernels.step_, work.tensors.params, arguments)
    if ordered is not None:
        ordered.write_back()
    _note_changes(work)
    return corrected


def _which_are_centered(work: BucketStep) -> Any:
    """For each tensor 1 if its rows are centered, otherwise 0; None if nothing processes units."""
    if work.group["grad_centralize"]:
        return work.sizes.have_rows
    if work.group["agc_clip"] > 0:
        return array("q", [0]) * len(work.sizes.numels)
    return None


def _in_order(work: BucketStep) -> Ordered | None:
    """The tensors of a bucket in the order of memory that kernels need; None if all of them lie so."""
    odd = work.once("odd", lambda: odd_tensors(_columns(work), work.owned.by_rows))
    return Ordered(_columns(work), odd) if odd else None


def _columns(work: BucketStep) -> list[TensorList]:
    """The tensors that a kernel runs through; with Kahan's rounding also the errors of rounding."""
    columns = list(work.tensors)
    if work.owned.rounding == "kahan":
        columns.append(local_states(work.owned, work.states, "compensation"))
    return columns


def _tensors(work: BucketStep, ordered: Ordered | None) -> dict[str, Any]:
    """The entries of a table that say where the tensors of a bucket are, and how their parameters are rounded."""
    kind = work.owned.rounding
    if ordered is None:
        begin = work.addresses.buffer_info()[0]
        size = len(work.tensors.params) * work.addresses.itemsize
        columns: list[Any] = [Address(begin + k * size) for k in range(len(work.tensors))]
    else:
        columns = list(map(addresses, ordered.columns))
    errors = None
    rounding = None
    if kind != "nearest":
        seed = 0
        if kind == "stochastic":
            seed = int(torch.randint(1 << 62, (), device="cpu"))
        elif ordered is None:
            errors = addresses(_columns(work)[-1])
        else:
            errors = columns[-1]
        rounding = array("q", [ROUNDINGS[kind], seed])
    return {
        "params": columns[0],
        "grads": columns[1],
        "exp_avgs": columns[2],
        "exp_avg_sqs": columns[3],
        "errors": errors,
        "rounding": rounding,
        "numels": work.sizes.numels,
        "units": work.sizes.units,
    }


def _note_changes(work: BucketStep) -> None:
    """Tell autograd what was changed in place."""
    tensors = work.tensors
    torch.autograd.graph.increment_version([*tensors.params, *tensors.exp_avgs, *tensors.exp_avg_sqs])


def call(kernel: Callable[..., int], tensors: TensorList, arguments: Iterable[Any]) -> int:
    """Call a kernel with the position of the tensors' dtype, threads, their number, and its arguments.

    A vector or an array is passed as its address, anything but that and None as a number.
    """
    entries: list[int | float | None] = []
    kept = []  # vectors must live until the kernel has returned
    for argument in arguments:
        if argument is None or type(argument) in (float, Address):
            entries.append(argument)
        elif type(argument) is array:
            entries.append(argument.buffer_info()[0])
        elif isinstance(argument, Tensor) and argument.ndim:
            vector = argument.contiguous()
            kept.append(vector)
            entries.append(vector.data_ptr())
        else:
            entries.append(float(argument))
    return kernel(POSITIONS[tensors[0].dtype], torch.get_num_threads(), len(tensors), tuple(entries))
