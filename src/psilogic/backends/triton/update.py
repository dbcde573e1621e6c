"""The launch of the update.

The update is bound by memory: in float32 it reads 16 bytes of each element and writes 12, once. One program updates one
chunk of one tensor, which it finds in a table. That table is uploaded again when a size changes; the table of addresses
when an address changes, which gradients' may in every step. Hyperparameters are arguments of the kernel, so that a
schedule does not compile anything.
"""

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

from psilogic.backends.triton.launch import DTYPES, Launch, Variant, compiled_for
from psilogic.backends.triton.tables import chunk_tables
from psilogic.backends.triton.update_kernels import INTERPRETED, VECTORS, update_kernel
from psilogic.step import Scalar, Step, Tensors
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.memory import Sizes, uniform

CHUNK_BYTES = 8192
"""Bytes of each array per program: large enough that computations once per program are a small part of its work."""
PART = 1024
"""The largest part at once, in elements: small enough that ten programs share the registers."""
PART_BYTES = 4096
"""The largest part at once, in bytes."""


@cache
def update_of(dtype: torch.dtype, by_rows: bool) -> Variant:
    """The kernel of the update, for units that are whole tensors or rows."""
    part = min(PART, PART_BYTES // dtype.itemsize)
    return Variant(update_kernel, (*compiled_for(dtype), by_rows, CHUNK_BYTES // dtype.itemsize, part, part // 2))


def supports(columns: Tensors, by_rows: bool) -> bool:
    """Whether the kernels can update these tensors: on one CUDA device, or on the CPU in Triton's interpreter."""
    if not columns.params or columns.params[0].is_cuda == INTERPRETED:
        return False
    devices = {x.get_device() for xs in columns for x in xs}
    return len(devices) == 1 and uniform(DTYPES, columns, by_rows)


def pointer_or_number(lr: Scalar) -> tuple[Tensor | None, Any]:
    """A learning rate as kernels take it: a pointer and 0 if it is a tensor, or no pointer and the number."""
    if isinstance(lr, Tensor):
        return lr, 0.0
    return None, lr


class Update:
    """The launch of the update of N tensors that `supports` accepts, which is repeated in each step of a plan.

    Args:
        first: one of the tensors, for device and dtype.
        addresses: theirs, column after column, on the device.
        sizes: theirs and their units'.
        tables: used for no other list of tensors.
    """

    def __init__(self, first: Tensor, addresses: Tensor, sizes: Sizes, tables: DeviceTables) -> None:
        chunk = CHUNK_BYTES // first.dtype.itemsize
        records, tensor_of_chunk = tables.get("chunks", sizes, first.device, lambda: chunk_tables(sizes, chunk))
        pointers = {"addresses": addresses, "records": records, "tensors": tensor_of_chunk}
        absent = dict.fromkeys(VECTORS[len(pointers) :])
        variant = update_of(first.dtype, by_rows=sizes.have_units)
        self.launch = Launch(variant, (len(tensor_of_chunk), 1, 1), {**pointers, **absent}, [])
        self._count = len(sizes.numels)
        self._step: Step | None = None  # the last one

    def __call__(
        self,
        tensors: Tensors,
        addresses: Tensor,
        step: Step,
        mean: Tensor | None,
        scale: Tensor | None,
        found_inf: Tensor | None = None,
    ) -> None:
        """One step, in place: mean and scale, decay, quantum decay, Adam.

        Args:
            tensors: the tensors.
            addresses: theirs, column after column, on the device.
            step: the step to take, with vectors and a tensor lr on the device, in float64 if possible.
            mean: subtracted from the gradients, unit by unit, shape (U,); None for 0; always the same for a step.
            scale: multiplies them after that, shape (U,); None for 1; always the same for a step.
            found_inf: nothing changes if it, one element, is above 0; None for 0.
        """
        if step is not self._step:
            self._step = step
            self._read(step, mean, scale)
        self.launch.point(addresses=addresses, found_inf=found_inf)
        self.launch()
        torch.autograd.graph.increment_version([*tensors.params, *tensors.exp_avgs, *tensors.exp_avg_sqs])

    def _read(self, step: Step, mean: Tensor | None, scale: Tensor | None) -> None:
        """Take the arguments of a step."""
        self.launch.point(
            t=_contiguous_or_none(step.t),
            decay=_contiguous_or_none(step.decay),
            quantum_rate=_contiguous_or_none(step.quantum_rate),
            mean=_contiguous_or_none(mean),
            scale=_contiguous_or_none(scale),
        )
        self.take_numbers(step)

    def take_numbers(self, step: Step) -> None:
        """Take the hyperparameters of a step."""
        lr_pointer, lr = pointer_or_number(step.lr)
        lr_stride = int(lr_pointer is not None and lr_pointer.numel() > 1)
        logs = (_log(step.beta1), _log(step.beta2))
        self.launch.take([self._count, lr_stride, lr, step.beta1, step.beta2, *logs, step.eps])
        self.launch.point(lr_pointer=lr_pointer)


def _contiguous_or_none(vector: Tensor | None) -> Tensor | None:
    return None if vector is None else vector.contiguous()


def _log(beta: Any) -> float:
    return math.log(beta) if beta > 0 else -math.inf
