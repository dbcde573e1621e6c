"""The update: each tensor's execution measures, then changes it. Only this package knows the executions."""

from typing import Any

from torch import Tensor

from psilogic.gradients import Statistics
from psilogic.tensors.sharding import complete
from psilogic.updates.types import UpdatePlan, Work


def measure(works: list[Work], pre_steps: list[Any], found_inf: Tensor | None) -> tuple[list[Any], Tensor | None]:
    """Read the gradients of all tensors, and complete the sums over tensors that are split over ranks."""
    measured: dict[int, Any] = {}
    for i in sorted(range(len(works)), key=lambda i: works[i].execution.early):
        measured[i] = works[i].execution.measure(works[i], pre_steps[i])
    split = {i: measured[i] for i, work in enumerate(works) if work.bucket.ranks is not None}
    sums, found_inf = complete([work.bucket for work in works], split, found_inf)
    measured |= {i: Statistics(*of_bucket) for i, of_bucket in sums.items()}
    return [measured[i] for i in range(len(works))], found_inf


def update_(works: list[Work], measured: list[Any], plans: list[UpdatePlan], found_inf: Tensor | None) -> None:
    """Apply the plans to parameters and states; updates that `measure` began are finished first."""
    every = zip(works, measured, plans, strict=True)
    for work, of_work, plan in sorted(every, key=lambda x: not x[0].execution.early):
        if work.states:
            work.execution.update_(work, of_work, plan, found_inf)
            work.owned.cache.scalars.write(work.states, plan.scalars)
