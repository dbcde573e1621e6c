"""The update: each tensor's execution begins and finishes it. Only this package knows the executions."""

from typing import Any

from torch import Tensor

from psilogic.gradients import Statistics
from psilogic.tensors.sharding import complete
from psilogic.updates.types import UpdatePlan, Work


def begin(works: list[Work], pre_steps: list[Any], found_inf: Tensor | None) -> tuple[list[Any], Tensor | None]:
    """Sum over the gradients of all tensors, also over the ranks that hold pieces of them."""
    begun: dict[int, Any] = {}
    for i in sorted(range(len(works)), key=lambda i: works[i].execution.early):
        begun[i] = works[i].execution.begin(works[i], pre_steps[i])
    split = {i: begun[i] for i, work in enumerate(works) if work.bucket.ranks is not None}
    if split:
        sums, found_inf = complete([work.bucket for work in works], split, found_inf)
        begun |= {i: Statistics(*of_bucket) for i, of_bucket in sums.items()}
    return [begun[i] for i in range(len(works))], found_inf


def finish(works: list[Work], begun: list[Any], plans: list[UpdatePlan], found_inf: Tensor | None) -> None:
    """Apply the plans to parameters and states; updates that began early are finished first."""
    every = zip(works, begun, plans, strict=True)
    for work, of_work, plan in sorted(every, key=lambda x: not x[0].execution.early):
        if work.states:
            work.execution.finish(work, of_work, plan, found_inf)
            work.owned.cache.scalars.write(work.states, plan.scalars)
