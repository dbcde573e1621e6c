"""The update on a CPU through compiled kernels: one call for the sums, one for the update."""

from torch import Tensor

from psilogic.gradients import Statistics, measure
from psilogic.updates.native import kernels
from psilogic.updates.types import Execution, PreStep, UpdatePlan, Work


def begin(work: Work, pre_step: PreStep | None) -> Statistics:
    """The sums over units; by torch's operations if another process updates some of the tensors."""
    bucket, (params, grads, *_) = work.bucket, work.tensors
    if work.owned is not bucket:
        return measure(bucket)
    by_agc = params if bucket.group["agc_clip"] > 0 else None
    sums = kernels.unit_statistics(grads, by_agc, bucket.units, bucket.group["grad_centralize"])
    return Statistics(None if bucket.ranks is None else bucket.numel, *sums)


def finish(work: Work, begun: Statistics, plan: UpdatePlan, found_inf: Tensor | None) -> None:
    """Update parameters and moments in one pass."""
    kernels.update_(work.tensors, plan.step, plan.mean, plan.scale, work.owned.units)


execution = Execution("native", kernels.supports, begin, finish, at_once=True)
