"""The stages of a step, from the sums over gradients to new values of the states' scalars, for all of its buckets."""

from collections import Counter
from collections.abc import Sequence

from torch import Tensor

from psilogic.gradients import reduce
from psilogic.step import BucketStep, Observer, StepInputs
from psilogic.tensors.scalars import write_


def take_steps(works: list[BucketStep], grad_scale: Tensor | None, found_inf: Tensor | None, is_observed: bool) -> bool:
    """Take the steps of all buckets, whose backends are selected.

    Args:
        works: the steps.
        grad_scale: the factor of the loss that GradScaler leaves to the step, one element; None for 1.
        found_inf: above 0 if GradScaler found an overflow, one element; None if it leaves no check to the step.
        is_observed: whether something observes the decisions.

    Returns:
        False if the host has read that there is an overflow: then nothing has changed. True otherwise, also if an
        overflow is found on the device, where the updates then change nothing.
    """
    for work in works:
        work.backend.begin(work)
    found_inf = reduce(works, found_inf)
    host_must_know = is_observed or not all(work.backend.on_device for work in works)
    if found_inf is not None and host_must_know:
        if found_inf.item():
            return False
        found_inf = None
    inputs = StepInputs(
        max_grad_norm=works[0].bucket.group["max_grad_norm"],  # the same in all groups
        grad_scale=grad_scale,
        found_inf=found_inf,
        observed=is_observed,
    )
    works[0].backend.decide(works, inputs)  # all backends of a step decide in the same way
    for work in works:
        if work.states:  # there are none if other processes update all tensors of the bucket
            work.backend.finish(work, found_inf)
            write_(work.states, work.scalars)
    return True


def tell(
    works: list[BucketStep], params_of_each: list[list[Tensor]], observers: Sequence[Observer], executed: Counter[str]
) -> None:
    """Count the tensors that each backend has updated, and tell the observers what was decided about each bucket.

    Args:
        works: the steps of all buckets, which were taken.
        params_of_each: the parameters of each bucket.
        observers: they are called in this order.
        executed: the counts by the name of the backend, which are added to.
    """
    for work, params in zip(works, params_of_each, strict=True):
        if not work.states:
            continue
        executed[work.backend.name] += len(work.states)
        for observer in observers:
            assert work.decision is not None  # it is made if there are observers
            observer(params, work.decision)
