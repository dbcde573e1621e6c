"""The update as one Triton kernel for all tensors of a device and dtype, their sums as one or two more.

Needs the package triton: nothing of psilogic may import this package before it is wanted. It has run in Triton's
interpreter and been compiled for three generations of GPUs, but never run on one: until it has, `fused=True` alone
takes it (`psilogic.updates.TRITON_ON_CUDA`).
"""

from torch import Tensor

from psilogic.gradients import Statistics
from psilogic.gradients import measure as measure_bucket
from psilogic.updates.triton import update
from psilogic.updates.triton.update import UnitSums
from psilogic.updates.work import Before, Execution, Settled, Work


def measure(work: Work, before: Before | None) -> Statistics | UnitSums:
    """The sums over units, in one launch; by torch's operations where other ranks update tensors or parts of them."""
    bucket, (params, grads, *_) = work.bucket, work.tensors
    if work.mine is not bucket or bucket.ranks is not None:
        return measure_bucket(bucket)
    by_agc = params if bucket.group["agc_clip"] > 0 else None
    what = grads, by_agc, bucket.units, bucket.group["grad_centralize"], bucket.known.uploads
    if before is None:
        return update.unit_sums(*what)
    return Statistics(bucket.numel, *update.unit_statistics(*what))


def update_(work: Work, measured: Statistics | UnitSums, settled: Settled, found_inf: Tensor | None) -> None:
    """Change parameters and moments in one launch."""
    bucket, (mean, scale, step, *_) = work.mine, settled
    update.update_(work.tensors, step, mean, scale, bucket.units, bucket.known.uploads, found_inf)


execution = Execution("triton", update.supports, measure, update_, skips=True, at_once=True)
