"""The decisions of a step by one kernel for each bucket: the host reads nothing and forms no vectors.

A step is then three launches for each bucket, one more with global clipping, one more where units are rows.
"""

from torch import Tensor

from psilogic.gradients import Rescaling, decided_by_unit
from psilogic.tensors.state import memory_names
from psilogic.tensors.uploads import upload
from psilogic.updates.triton import decision
from psilogic.updates.triton.update import UnitSums
from psilogic.updates.work import Decider, Settled, Step, Work


def admits(work: Work) -> bool:
    """Whether a kernel can decide for tensors that Triton updates: each decision follows from one tensor."""
    bucket, group = work.bucket, work.bucket.group
    if work.mine is not bucket or bucket.ranks is not None or group["chaos_scope"] != "tensor":
        return False
    names = ("step", "chaos_start", *memory_names(bucket))
    return decided_by_unit(group) and all(work.states[0][name].device == bucket.device for name in names)


def before(work: Work) -> None:
    """Nothing: the kernels read the states' scalars where they are."""


def decide(
    works: list[Work],
    before: list[None],
    measured: list[UnitSums],
    rescaling: Rescaling,
    found_inf: Tensor | None,
    watched: bool,
) -> list[Settled]:
    """Decide for every bucket, and change the states' scalars; `found_inf` above 0 means: everything stays as it is."""
    return [_settle(work, sums, rescaling, found_inf) for work, sums in zip(works, measured, strict=True)]


def _settle(work: Work, sums: UnitSums, rescaling: Rescaling, found_inf: Tensor | None) -> Settled:
    """Decide for the tensors of one bucket."""
    bucket, group, device = work.bucket, work.bucket.group, work.bucket.device
    lr = group["lr"]
    if isinstance(lr, Tensor):
        lr = upload("lr", lr.reshape(1), device)
    if found_inf is not None:
        found_inf = found_inf.to(device, non_blocking=True)
    names = ("step", "chaos_start", *memory_names(bucket))
    scalars = {name: bucket.known.scalars.read(work.states, name) for name in names}
    t, mean, scale, decided = decision.decide(group, lr, sums, scalars, rescaling.to(device), found_inf)
    step = Step(t, decided.decay, decided.quantum_rate, lr, group["weight_decay"], group["betas"], group["eps"])
    del scalars["chaos_start"]
    return Settled(mean, scale, step, scalars, decided)


decider = Decider(before, decide)
