"""How the steps of an optimizer are taken, stage after stage, and what is kept from one to the next."""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from psilogic.backends.select import select
from psilogic.gradients import reduce
from psilogic.hyperparameters import check_changes
from psilogic.plan import NOTHING, Conditions, Plan, Recalled
from psilogic.step import BucketStep, Observable, Observer, StepInputs
from psilogic.tensors.buckets import BucketCache
from psilogic.tensors.collect import collect
from psilogic.tensors.norms import intercepted
from psilogic.tensors.scalars import write_
from psilogic.tensors.sharding import Sharding


class Steps:
    """The steps of one optimizer, and what it keeps from one to the next besides its state.

    All that is kept is compared with the tensors of the next step, and can be found again.
    """

    def __init__(self) -> None:
        self._sharding = Sharding()
        self._caches: dict[int, BucketCache] = {}
        self._plan = Plan()

    def __reduce__(self) -> tuple[type["Steps"], tuple[()]]:
        return Steps, ()  # a copy keeps nothing: addresses are part of what is kept

    def give(self, params: Sequence[Tensor]) -> None:
        """Remember the tensors that the optimizer was given, which a library may replace in its groups."""
        self._sharding.give(params)

    def take(self, optimizer: Observable) -> None:
        """Take a step; all errors are raised before parameters or state change."""
        groups = list(optimizer.param_groups)  # a user may have made them a tuple
        has_others = False
        if not torch.compiler.is_compiling():
            has_others = self._plan.options.has_others_of(groups)
            if not has_others:
                check_changes(groups)
        conditions = Conditions.of(optimizer, optimizer.observers)
        recalled = NOTHING
        try:
            if not (torch.is_grad_enabled() or intercepted()):
                recalled = self._plan.recall(groups, optimizer.state, conditions, has_others)
            if recalled.repeated is not None:
                optimizer.executed = self._plan.repeat(recalled.repeated)
            else:
                self._take(optimizer, recalled, conditions)
        except BaseException:
            self._plan.forget()
            raise

    def _take(self, optimizer: Observable, recalled: Recalled, conditions: Conditions) -> None:
        """Take the step by the plan that was recalled, or by a new one."""
        optimizer.executed = Counter()
        works = recalled.works
        if works is None:
            buckets = collect(optimizer, self._sharding, self._caches)
            if not buckets:
                return
            is_scaled = conditions.has_grad_scale or conditions.has_found_inf
            works = select(buckets, optimizer.state, is_scaled, conditions.is_observed)
        grad_scale = getattr(optimizer, "grad_scale", None)
        found_inf = getattr(optimizer, "found_inf", None)
        was_taken = bool(works) and take_steps(works, grad_scale, found_inf, conditions.is_observed)
        params_of_each = [work.owned.params for work in works]
        if recalled.recurs:  # before an observer can change a tensor
            self._plan.keep(works)
        if was_taken:
            tell(works, params_of_each, optimizer.observers, optimizer.executed)


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
