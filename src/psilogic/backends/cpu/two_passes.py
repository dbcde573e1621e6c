"""Compiled kernels for a CPU: one pass over memory for the sums, and one for the update."""

from torch import Tensor

from psilogic import decision
from psilogic.backends.by_torch import ByTorch
from psilogic.backends.cpu import kernels
from psilogic.backends.cpu.sums import unit_statistics
from psilogic.gradients import Sums, measure
from psilogic.step import BucketStep, Tensors


class TwoPasses(ByTorch):
    """Compiled kernels; torch's operations decide between their passes."""

    name = "native"
    in_memory = True
    roundings = frozenset({"nearest", "kahan", "stochastic"})

    def is_compiled(self) -> bool:
        """Whether there are kernels for this machine."""
        return kernels.kernels is not None

    def supports(self, tensors: Tensors, by_rows: bool) -> bool:
        """Whether the kernels can update these tensors."""
        return kernels.supports(tensors)

    def begin(self, work: BucketStep) -> None:
        """Sum over units; by torch's operations if another process updates some of the tensors."""
        decision.prepare(work)
        bucket = work.bucket
        if work.owned is not bucket:
            work.sums = measure(bucket)
            return
        params = work.tensors.params if bucket.group["agc_clip"] > 0 else None
        centralizes = bucket.group["grad_centralize"]
        squares, sums, param_squares = unit_statistics(work.tensors.grads, params, bucket.units, centralizes)
        numel = None if bucket.ranks is None else bucket.numel
        work.sums = Sums(numel, squares, sums, param_squares)

    def finish(self, work: BucketStep, found_inf: Tensor | None) -> None:
        """Update parameters and moments in one pass."""
        kernels.update_(work, work.mean, work.scale)


backend = TwoPasses()
