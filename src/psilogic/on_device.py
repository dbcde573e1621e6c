"""The step of which kernels on the device do every part: the host reads nothing and forms no vectors."""

from typing import Any, NamedTuple

from torch import Tensor

from psilogic.buckets import Bucket
from psilogic.decision import Decision
from psilogic.gradients import Rescaling
from psilogic.scalars import State
from psilogic.updates import candidates, pick, tensors_of, triton_module
from psilogic.updates.operands import Step, Tensors
from psilogic.uploads import upload


class Work(NamedTuple):
    """What the kernels need of a bucket.

    Attributes:
        bucket: the tensors.
        states: theirs.
        tensors: the same with their moments.
        scalars: those of the states, each of shape (N,); a step changes them in place.
    """

    bucket: Bucket
    states: list[State]
    tensors: Tensors
    scalars: dict[str, Tensor]


def admitted(bucket: Bucket) -> bool:
    """Whether kernels may do all of a bucket's step: no other process or bucket has a say in its decisions."""
    whole = bucket.ranks is None and len(bucket.owned) == len(bucket.params)
    return whole and bucket.group["chaos_scope"] == "tensor" and "triton" in candidates(bucket)


def prepare(bucket: Bucket, states: list[State], scalars: dict[str, Tensor]) -> Work | None:
    """The work on an `admitted` bucket, if its tensors and scalars lie where the kernels can have them."""
    tensors = tensors_of(bucket, states)
    here = all(scalar.device == bucket.device for scalar in scalars.values())
    return Work(bucket, states, tensors, scalars) if here and pick(bucket, tensors) == "triton" else None


def step_(
    works: list[Work], max_norm: float | None, grad_scale: Tensor | None, found_inf: Tensor | None
) -> list[Decision]:
    """Decide and update: for each bucket three launches, with global clipping four.

    Args:
        works: all of this step.
        max_norm: the largest norm that global clipping leaves; None for no clipping.
        grad_scale: what the loss was multiplied by, one element; None for 1.
        found_inf: above 0 where nothing may change, one element; None for 0.

    Returns:
        What was decided, bucket by bucket; without meaning where nothing changed.
    """
    sums = [_sums(work) for work in works]
    rescaling = Rescaling.of([x.total for x in sums] if max_norm is not None else [], max_norm, grad_scale)
    return [_decide_and_update_(work, x, rescaling, found_inf) for work, x in zip(works, sums, strict=True)]


def _sums(work: Work) -> Any:
    """The sums over units that a bucket's decisions need."""
    bucket, (params, grads, *_) = work.bucket, work.tensors
    by_agc = params if bucket.group["agc_clip"] > 0 else None
    with_sums = bucket.group["grad_centralize"]
    return triton_module(bucket).unit_sums(grads, by_agc, bucket.units, with_sums, bucket.uploads)


def _decide_and_update_(work: Work, sums: Any, rescaling: Rescaling, found_inf: Tensor | None) -> Decision:
    """The step of one bucket, once it is known what all gradients are multiplied by."""
    from psilogic import triton_decision  # here, because it needs triton

    (bucket, _, tensors, scalars), group, device = work, work.bucket.group, work.bucket.device
    lr = group["lr"]
    if isinstance(lr, Tensor):
        lr = upload("lr", lr.reshape(1), device)
    if found_inf is not None:
        found_inf = found_inf.to(device, non_blocking=True)
    t, (mean, scale, _), decision = triton_decision.decide(group, lr, sums, scalars, rescaling.to(device), found_inf)
    rate = decision.quantum_rate if group["quantum_decay"] > 0 else None
    step = Step(t, decision.decay, rate, lr, group["weight_decay"], group["betas"], group["eps"])
    triton_module(bucket).update_(tensors, step, mean, scale, bucket.units, bucket.uploads, found_inf)
    return decision
