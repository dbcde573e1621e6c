"""Which backends the options of a bucket admit, whatever the layouts of its tensors."""

import os

import torch
from torch import Tensor

from psilogic.backends import cpu, foreach, torch_fused
from psilogic.step import Backend
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import intercepted


def admitted_backends(bucket: Bucket) -> list[Backend]:
    """The backends that a bucket's hyperparameters and dtype admit, best first; none if only foreach remains."""
    group = bucket.group
    if group["fused"] is False or group["differentiable"] or intercepted():
        return []
    if group is bucket.groups[0] and isinstance(group["weight_decay"], Tensor):  # on a GPU: kernels take a number
        return []
    # A row may begin in another rank's piece; the real view of a complex row has another mean.
    if bucket.by_rows and (bucket.ranks is not None or bucket.dtype.is_complex):
        return []
    candidates: list[Backend] = []
    on_nvidia = bucket.device.type == "cuda" and torch.version.hip is None  # nobody has tried an AMD GPU
    if group["fused"] or on_nvidia:
        candidates += _triton(bucket)
    if bucket.device.type == "cpu":
        if cpu.backend.is_compiled():
            candidates.append(cpu.backend)
        candidates.append(torch_fused.backend)
    return [backend for backend in candidates if bucket.rounding in backend.roundings]


def _triton(bucket: Bucket) -> list[Backend]:
    """Triton's backend, whose package takes a second to import; none where it cannot run.

    Foreach replaces it on a machine where Triton cannot compile, after a warning.
    """
    on_cuda = bucket.device.type == "cuda"
    in_interpreter = os.environ.get("TRITON_INTERPRET") == "1"
    if on_cuda == in_interpreter:  # the interpreter only reads host memory
        return []
    try:
        from psilogic.backends import triton
    except ImportError:
        return []
    if on_cuda and not triton.can_launch(bucket.device):
        return [foreach.backend]
    return [triton.backend]


def check_fused(buckets: list[Bucket], candidates: list[list[Backend]]) -> None:
    """Refuse a group's `fused=True` if devices, dtypes and options admit nothing fused for any of its buckets.

    A layout may be that of one step only, and is left to foreach, as is what a mode records. A compiler fuses a step.
    """
    honored: set[int] = set()
    for bucket, admitted in zip(buckets, candidates, strict=True):
        if admitted:
            honored.update(map(id, bucket.groups))
    for bucket in buckets:
        if bucket.group["fused"] and bucket.owned and not honored.issuperset(map(id, bucket.groups)):
            if intercepted():
                return
            raise RuntimeError(
                f"fused=True cannot be honored: nothing fused updates these {bucket.dtype} tensors on {bucket.device} "
                f"with bf16_update={bucket.group['bf16_update']!r}; pass fused=None"
            )
