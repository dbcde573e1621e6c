"""The backends that launch Triton's kernels: for sums and update, or for the decision too."""

from torch import Tensor

from psilogic import decision
from psilogic.backends.by_torch import ByTorch
from psilogic.backends.triton import decide, sums, update
from psilogic.backends.triton.repeat import RepeatedLaunches
from psilogic.backends.triton.tables import address_table
from psilogic.backends.triton.update import Update
from psilogic.gradients import Sums, measure
from psilogic.step import BucketStep, Repetition, StepInputs, Tensors


class Triton(ByTorch):
    """Kernels for sums and update; torch's operations decide."""

    name = "triton"
    on_device = True
    in_memory = True

    def supports(self, tensors: Tensors, by_rows: bool) -> bool:
        """Whether the kernels can update these tensors."""
        return update.supports(tensors, by_rows)

    def begin(self, work: BucketStep) -> None:
        """Sum over units, in one launch; by torch's operations if other ranks update tensors or parts of them."""
        decision.prepare(work)
        if work.owned is not work.bucket or work.bucket.ranks is not None:
            work.sums = measure(work.bucket)
            return
        squares, gradient_sums, param_squares = sums.unit_sums_of(work).by_unit()
        work.sums = Sums(None, squares, gradient_sums, param_squares)

    def finish(self, work: BucketStep, found_inf: Tensor | None) -> None:
        """Update parameters and moments in one launch."""
        bucket = work.owned
        if found_inf is not None:
            found_inf = found_inf.to(bucket.device, non_blocking=True)
        addresses = address_table(work)
        first = work.tensors.params[0]
        update_ = work.once("update", lambda: Update(first, addresses, work.sizes, bucket.cache.tables))
        update_(work.tensors, addresses, work.step, mean=work.mean, scale=work.scale, found_inf=found_inf)


class TritonDecides(Triton):
    """Kernels for sums, decision and update: the host reads nothing."""

    def begin(self, work: BucketStep) -> None:
        """Sum over units, in one launch; the sums of long rows stay in parts, which the kernel of the decision adds."""
        work.sums = sums.unit_sums_of(work)

    def decide(self, works: list[BucketStep], inputs: StepInputs) -> None:
        """Decide for every bucket by a kernel, and change the states' scalars."""
        decide.decide(works, inputs)

    def repetition(self, works: list[BucketStep]) -> Repetition | None:
        """What launches the same kernels again."""
        return RepeatedLaunches(works)


def decide_by_kernels(works: list[BucketStep]) -> None:
    """Let kernels decide in a step of which Triton updates all tensors, where each decision concerns one tensor."""
    if all(decide.admits(work) for work in works):
        for work in works:
            work.backend = deciding_backend


backend = Triton()
deciding_backend = TritonDecides()
