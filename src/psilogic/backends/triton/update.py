"""The launch of the update.

The update is bound by memory: in float32 it reads 16 bytes of each element and writes 12, once. One program updates one
chunk of one tensor, which it finds in a table. That table is uploaded again when a size changes; the table of addresses
when an address changes, which gradients' may in every step. Hyperparameters are arguments of the kernel, so that a
schedule does not compile anything.
"""

import math
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from psilogic.backends.triton.launch import OPTIONS
from psilogic.backends.triton.tables import chunk_tables, uploaded_addresses
from psilogic.backends.triton.update_kernels import INTERPRETED, update_kernel
from psilogic.step import Scalar, Step, Tensors
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.memory import uniform

DTYPES = {torch.float64: tl.float64, torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
CHUNK_BYTES = 8192
"""Bytes of each array per program: large enough that computations once per program are a small part of its work."""
PART = 1024
"""The largest part at once, in elements: small enough that ten programs share the registers."""
PART_BYTES = 4096
"""The largest part at once, in bytes."""


def compiled_for(dtype: torch.dtype, wide: bool = False) -> dict[str, Any]:
    """Compile-time arguments of kernels: the tensors' dtype, the dtype of the arithmetic, and options."""
    accumulator = tl.float64 if wide or dtype == torch.float64 else tl.float32
    return {"DTYPE": DTYPES[dtype], "ACC": accumulator, "ITEMSIZE": dtype.itemsize, **OPTIONS}


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


def update_(
    tensors: Tensors,
    step: Step,
    mean: Tensor | None,
    scale: Tensor | None,
    units: list[int],
    tables: DeviceTables,
    found_inf: Tensor | None = None,
) -> None:
    """One step for N tensors that `supports` accepts, in place: mean and scale, decay, quantum decay, Adam.

    Arguments as for `cpu.kernels.update_`, with vectors and a tensor lr on the device, in float64 if possible. No
    other list of tensors should use the same tables. Nothing changes if `found_inf`, one element or None, is above 0.
    """
    first = tensors.params[0]
    itemsize = first.dtype.itemsize
    chunk = CHUNK_BYTES // itemsize
    part = min(PART, PART_BYTES // itemsize)
    numels = [p.numel() for p in tensors.params]
    key = [chunk, *numels, *units]
    records, tensor_of_chunk = tables.get("chunks", key, first.device, lambda: chunk_tables(numels, units, chunk))
    addresses = uploaded_addresses(tables, "update", tensors)
    programs = len(tensor_of_chunk)
    if programs == 0:
        return
    t, decay, quantum_rate, mean, scale = map(_contiguous_or_none, (step.t, step.decay, step.quantum_rate, mean, scale))
    lr_pointer, lr = pointer_or_number(step.lr)
    lr_stride = int(lr_pointer is not None and lr_pointer.numel() > 1)
    has_units = scale is not None or mean is not None
    with torch.cuda.device_of(first):
        update_kernel[(programs,)](
            addresses, records, tensor_of_chunk, t, decay, quantum_rate, mean, scale, lr_pointer, found_inf,
            lr_stride, lr, step.beta1, step.beta2, _log(step.beta1), _log(step.beta2), step.eps,
            BY_ROWS=has_units and any(n != 1 for n in units), CHUNK=chunk, ALIGNED_PART=part, PART=part // 2,
            **compiled_for(first.dtype),
        )  # fmt: skip
    torch.autograd.graph.increment_version([*tensors.params, *tensors.exp_avgs, *tensors.exp_avg_sqs])


def _contiguous_or_none(vector: Tensor | None) -> Tensor | None:
    return None if vector is None else vector.contiguous()


def _log(beta: Any) -> float:
    return math.log(beta) if beta > 0 else -math.inf
