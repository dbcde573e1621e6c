"""What backends share: sums and decision by torch's operations, on any device."""

from psilogic import decision
from psilogic.gradients import measure
from psilogic.step import Backend, BucketStep, StepInputs


class ByTorch(Backend):
    """A backend that leaves all but the update to torch's operations."""

    def begin(self, work: BucketStep) -> None:
        """Sum over the gradients."""
        decision.prepare(work)
        work.sums = measure(work.bucket)

    def decide(self, works: list[BucketStep], inputs: StepInputs) -> None:
        """Decide for all buckets that have not decided themselves, whatever their backends."""
        undecided = []
        for work in works:
            if not work.decides_itself:
                undecided.append(work)
        if undecided:
            decision.decide(undecided, inputs)
