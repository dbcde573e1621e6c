"""The update on a CPU through kernels of our own: one call for the sums, one for the update."""

from torch import Tensor

from psilogic.gradients import Statistics
from psilogic.gradients import measure as measure_bucket
from psilogic.updates.native import kernels
from psilogic.updates.work import Before, Execution, Settled, Work


def measure(work: Work, before: Before | None) -> Statistics:
    """The sums over units; by torch's operations where not all tensors are updated here."""
    bucket, (params, grads, *_) = work.bucket, work.tensors
    if work.mine is not bucket:
        return measure_bucket(bucket)
    by_agc = params if bucket.group["agc_clip"] > 0 else None
    sums = kernels.unit_statistics(grads, by_agc, bucket.units, bucket.group["grad_centralize"])
    return Statistics(bucket.numel, *sums)


def update_(work: Work, measured: Statistics, settled: Settled, found_inf: Tensor | None) -> None:
    """Change parameters and moments in one pass."""
    kernels.update_(work.tensors, settled.step, settled.mean, settled.scale, work.mine.units)


execution = Execution("native", kernels.supports, measure, update_, at_once=True)
