"""The decisions of a step by one kernel for each bucket: the host reads nothing and computes no vectors.

A step is then three launches for each bucket, one more with global clipping, and one more if units are rows.
"""

from torch import Tensor

from psilogic.gradients import Rescaling, decided_by_unit
from psilogic.tensors.state import CLOCKS, memory_names
from psilogic.updates.triton import decision
from psilogic.updates.triton.update import UnitSums
from psilogic.updates.types import Step, UpdatePlan, Work


def admits(work: Work) -> bool:
    """Whether a kernel can decide for tensors that Triton updates: each decision must depend on one tensor only."""
    bucket, group = work.bucket, work.bucket.group
    if work.owned is not bucket or bucket.ranks is not None or group["chaos_scope"] != "tensor":
        return False
    names = (*CLOCKS, *memory_names(group))
    return decided_by_unit(group) and all(work.states[0][name].device == bucket.device for name in names)


def pre_step(work: Work) -> None:
    """None: the kernels read the states' scalars themselves."""


def decide(
    works: list[Work],
    pre_steps: list[None],
    measured: list[UnitSums],
    rescaling: Rescaling,
    found_inf: Tensor | None,
    observed: bool,
) -> list[UpdatePlan]:
    """Decide for every bucket, and change the states' scalars; nothing changes if `found_inf` is above 0."""
    return [_plan(work, sums, rescaling, found_inf) for work, sums in zip(works, measured, strict=True)]


def _plan(work: Work, sums: UnitSums, rescaling: Rescaling, found_inf: Tensor | None) -> UpdatePlan:
    """Decide for the tensors of one bucket."""
    bucket, group, device = work.bucket, work.bucket.group, work.bucket.device
    lr = bucket.hyperparameters(wide=False)["lr"]
    if found_inf is not None:
        found_inf = found_inf.to(device, non_blocking=True)
    scalars = bucket.cache.scalars.read(work.states, (*CLOCKS, *memory_names(group)))
    t, mean, scale, decided = decision.decide(group, lr, bucket.numbers, sums, scalars, rescaling.to(device), found_inf)
    step = Step(t, decided.decay, decided.quantum_rate, lr, group["weight_decay"], group["betas"], group["eps"])
    del scalars["chaos_start"]
    return UpdatePlan(mean, scale, step, scalars, decided)
