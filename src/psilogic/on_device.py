"""The step of which kernels on the device do every part: the host reads nothing and forms no vectors."""

from typing import Any

from torch import Tensor

from psilogic.buckets import Bucket
from psilogic.decision import Decision
from psilogic.gradients import Rescaling, decided_by_unit
from psilogic.updates import Work, triton_module, update_
from psilogic.updates.operands import Step
from psilogic.uploads import upload


def admits(bucket: Bucket, work: Work | None) -> bool:
    """Whether kernels may do all of a bucket's step."""
    if work is None or work.bucket is not bucket or bucket.ranks is not None:
        return False
    return work.execution == "triton" and admits_group(bucket.group)


def admits_group(group: dict[str, Any]) -> bool:
    """Whether each decision follows from one tensor, and the scale of each unit from that unit."""
    return group["chaos_scope"] == "tensor" and decided_by_unit(group)


def step_(
    works: list[Work],
    scalars: list[dict[str, Tensor]],
    max_norm: float | None,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
) -> list[Decision]:
    """Decide and update: for each bucket three launches, one more with global clipping, one more where units are rows.

    Args:
        works: all that is updated in this step.
        scalars: those of the states, on the device, by name and of shape (N,); changed in place.
        max_norm: the largest norm that global clipping leaves; None for no clipping.
        grad_scale: what the loss was multiplied by, one element; None for 1.
        found_inf: above 0 where nothing may change, one element; None for 0.

    Returns:
        What was decided, bucket by bucket; without meaning where nothing changed.
    """
    sums = [_sums(work) for work in works]
    rescaling = Rescaling.of([x.total for x in sums] if max_norm is not None else [], max_norm, grad_scale)
    return [
        _decide_and_update_(work, of_work, memory, rescaling, found_inf)
        for work, of_work, memory in zip(works, sums, scalars, strict=True)
    ]


def _sums(work: Work) -> Any:
    """The sums over units that a bucket's decisions need."""
    bucket, (params, grads, *_) = work.bucket, work.tensors
    by_agc = params if bucket.group["agc_clip"] > 0 else None
    with_sums = bucket.group["grad_centralize"]
    return triton_module(bucket).unit_sums(grads, by_agc, bucket.units, with_sums, bucket.uploads)


def _decide_and_update_(
    work: Work, sums: Any, scalars: dict[str, Tensor], rescaling: Rescaling, found_inf: Tensor | None
) -> Decision:
    """The step of one bucket, once it is known what all gradients are multiplied by."""
    from psilogic import triton_decision  # here, because it needs triton

    group, device = work.bucket.group, work.bucket.device
    lr = group["lr"]
    if isinstance(lr, Tensor):
        lr = upload("lr", lr.reshape(1), device)
    if found_inf is not None:
        found_inf = found_inf.to(device, non_blocking=True)
    t, processing, decision = triton_decision.decide(group, lr, sums, scalars, rescaling.to(device), found_inf)
    rate = decision.quantum_rate if group["quantum_decay"] > 0 else None
    step = Step(t, decision.decay, rate, lr, group["weight_decay"], group["betas"], group["eps"])
    update_(work, processing, step, found_inf)
    return decision
