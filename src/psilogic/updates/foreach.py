"""The update on any device and dtype, through torch's foreach operations: the ground truth."""

import torch
from torch import Tensor

from psilogic import equations as eq
from psilogic.gradients import Statistics, measure
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.factors import addcdiv_, copied, divided_, expanded_rows, readable, scale_, scaled
from psilogic.tensors.norms import Foreach, as_real, fresh, traced
from psilogic.tensors.state import held
from psilogic.tensors.uploads import Uploads
from psilogic.updates.rounding import narrow_, widen
from psilogic.updates.work import Execution, Settled, Step, Tensors, Work


def supports(tensors: Tensors, by_rows: bool) -> bool:
    """Any tensors, in whatever way they lie in memory."""
    return True


def update_(work: Work, measured: Statistics, settled: Settled, found_inf: Tensor | None) -> None:
    """Change all tensors together, or one after the other with `foreach=False`."""
    bucket, step = work.mine, settled.step
    compensations = held(bucket, work.states, "compensation") if bucket.rounding == "kahan" else None
    tensors = work.tensors._replace(grads=as_real(process(bucket, settled.mean, settled.scale)))
    every = range(len(tensors.params))
    for batch in [slice(None)] if bucket.group["foreach"] is not False else [slice(i, i + 1) for i in every]:
        params, *others = (xs[batch] for xs in tensors)
        cut_off = compensations and compensations[batch]
        exact = params if bucket.rounding == "nearest" else widen(params, cut_off)
        adam_(Tensors(exact, *others), step.of(batch), bucket.known.uploads)
        if bucket.rounding != "nearest":
            narrow_(params, exact, cut_off)


def process(bucket: Bucket, mean: Tensor | None, scale: Tensor | None) -> Foreach:
    """The processed gradients of the bucket's tensors, or what this rank holds of them; `p.grad` stays as it is."""
    grads = bucket.grads
    if mean is not None:
        grads = centred(bucket, grads, mean)
    if scale is not None:
        grads = scaled_by_rows(bucket, grads, scale) if bucket.by_rows else scaled(grads, scale, bucket.known.uploads)
    return copied(grads, bucket.dtype)  # half precision is centred and scaled in float32


def centred(bucket: Bucket, grads: Foreach, mean: Tensor) -> Foreach:
    """The bucket's gradients without what each unit loses, shape (U,); half precision comes in float32."""
    if not _rows_at_once(bucket, mean):
        return [g - m for g, m in zip(grads, bucket.spread(mean), strict=True)]
    means = expanded_rows(mean, bucket.units, grads, bucket.known.uploads)
    return list(torch._foreach_sub(copied(grads, means[0].dtype), means))


def scaled_by_rows(bucket: Bucket, grads: Foreach, scale: Tensor) -> Foreach:
    """The bucket's gradients times what each unit is multiplied by, shape (U,); half precision comes in float32."""
    if not _rows_at_once(bucket, scale):
        return [g * s for g, s in zip(grads, bucket.spread(scale), strict=True)]
    products = expanded_rows(scale, bucket.units, grads, bucket.known.uploads)
    torch._foreach_mul_(products, copied(grads, products[0].dtype))
    return products


def _rows_at_once(bucket: Bucket, by_unit: Tensor) -> bool:
    """Whether the rows of all tensors are treated at once, as on a GPU; not those of which ranks hold pieces."""
    return not (readable(by_unit) or traced() or bucket.ranks is not None or bucket.dtype.is_complex)


def adam_(tensors: Tensors, step: Step, uploads: Uploads) -> None:
    """One step for N tensors of one device and dtype, in place: decay, quantum decay, Adam.

    Args:
        tensors: the tensors, with processed gradients.
        step: what to do to them.
        uploads: what the device was told about the tensors.
    """
    params, grads, exp_avgs, exp_avg_sqs = tensors
    scale_(params, 1 - step.decay, uploads)
    if step.quantum_rate is not None:
        quantum_decay_(params, grads, step.quantum_rate, uploads)
    moments_(grads, exp_avgs, exp_avg_sqs, step.betas)
    descend_(params, exp_avgs, exp_avg_sqs, step, uploads)


def quantum_decay_(params: Foreach, grads: Foreach, rate: Tensor, uploads: Uploads) -> None:
    """theta <- theta (1 - rate tanh|g|), in the dtype of theta: equation 4 of the paper."""
    factors = copied(list(torch._foreach_abs(grads)), params[0].dtype)
    torch._foreach_tanh_(factors)
    factors = fresh(factors)
    scale_(factors, -rate, uploads)
    torch._foreach_add_(factors, 1.0)
    torch._foreach_mul_(params, factors)


def moments_(grads: Foreach, exp_avgs: Foreach, exp_avg_sqs: Foreach, betas: tuple[float, float]) -> None:
    """m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2."""
    beta1, beta2 = betas
    torch._foreach_lerp_(exp_avgs, grads, 1 - beta1)
    torch._foreach_mul_(exp_avg_sqs, beta2)
    torch._foreach_addcmul_(exp_avg_sqs, grads, grads, 1 - beta2)


def descend_(params: Foreach, exp_avgs: Foreach, exp_avg_sqs: Foreach, step: Step, uploads: Uploads) -> None:
    """theta <- theta - lr m_hat / (sqrt(v_hat) + eps)."""
    (beta1, beta2), t = step.betas, step.t
    denominators = divided_(fresh(torch._foreach_sqrt(exp_avg_sqs)), eq.bias_correction(beta2, t).sqrt(), uploads)
    torch._foreach_add_(denominators, step.eps)
    step_size = -step.lr / eq.bias_correction(beta1, t)
    if readable(step_size):
        addcdiv_(params, exp_avgs, denominators, step_size.tolist())
    else:  # addcdiv takes no scalars from the device
        addcdiv_(params, fresh(exp_avgs), divided_(denominators, step_size, uploads), 1.0)


execution = Execution("foreach", supports, lambda work, before: measure(work.bucket), update_)
