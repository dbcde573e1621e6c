"""The step of which kernels on the device do every part: the host reads nothing and forms no vectors."""

from typing import NamedTuple

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
        tensors: the same with their moments.
        scalars: those of their states, each of shape (N,).
    """

    bucket: Bucket
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
    return Work(bucket, tensors, scalars) if here and pick(bucket, tensors) == "triton" else None


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
    from psilogic import triton_decision  # here, because it needs triton

    sums = []
    for bucket, tensors, _ in works:
        group, params = bucket.group, tensors.params if bucket.group["agc_clip"] > 0 else None
        kernels = triton_module(bucket)
        sums.append(kernels.unit_sums(tensors.grads, params, bucket.units, group["grad_centralize"], bucket.uploads))
    rescaling = Rescaling.of([x.total for x in sums] if max_norm is not None else [], max_norm, grad_scale)
    decisions = []
    for (bucket, tensors, scalars), of_bucket in zip(works, sums, strict=True):
        group, device = bucket.group, bucket.device
        lr = group["lr"]
        if isinstance(lr, Tensor):
            lr = upload("lr", lr.reshape(1), device)
        here = rescaling.to(device)
        skip = None if found_inf is None else found_inf.to(device, non_blocking=True)
        t, (mean, scale, _), decision = triton_decision.decide(group, lr, of_bucket, scalars, here, skip)
        rate = decision.quantum_rate if group["quantum_decay"] > 0 else None
        step = Step(t, decision.decay, rate, lr, group["weight_decay"], group["betas"], group["eps"])
        triton_module(bucket).update_(tensors, step, mean, scale, bucket.units, bucket.uploads, skip)
        decisions.append(decision)
    return decisions
