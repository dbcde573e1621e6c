"""The update as one Triton kernel for all tensors of a device and dtype; one or two more for their sums.

Needs the package triton: psilogic imports this package only when an optimizer uses it, as it does by default on an
NVIDIA GPU. It has run on one GPU (H200) and in Triton's interpreter, and been compiled for three generations of GPUs.
"""

from torch import Tensor

from psilogic.gradients import Statistics, measure
from psilogic.updates.triton import update
from psilogic.updates.triton.update import UnitSums
from psilogic.updates.types import Execution, PreStep, UpdatePlan, Work


def begin(work: Work, pre_step: PreStep | None) -> Statistics | UnitSums:
    """The sums over units, in one launch; by torch's operations if other ranks update tensors or parts of them."""
    bucket, (params, grads, *_) = work.bucket, work.tensors
    if work.owned is not bucket or bucket.ranks is not None:
        return measure(bucket)
    by_agc = params if bucket.group["agc_clip"] > 0 else None
    what = grads, by_agc, bucket.units, bucket.group["grad_centralize"], bucket.cache.tables
    if pre_step is None:
        return update.unit_sums(*what)
    return Statistics(None, *update.unit_statistics(*what))


def finish(work: Work, begun: Statistics | UnitSums, plan: UpdatePlan, found_inf: Tensor | None) -> None:
    """Update parameters and moments in one launch."""
    bucket, (mean, scale, step, *_) = work.owned, plan
    update.update_(work.tensors, step, mean, scale, bucket.units, bucket.cache.tables, found_inf)


execution = Execution("triton", update.supports, begin, finish, skips=True, at_once=True)
