"""The update on any device and dtype, through torch's foreach operations: the ground truth."""

import torch
from torch import Tensor

from psilogic import equations as eq
from psilogic.norms import Foreach, fresh, per_tensor
from psilogic.updates.operands import Step, Tensors


def quantum_decay_(params: Foreach, grads: Foreach, rate: Tensor, on_host: bool) -> None:
    """theta <- theta (1 - rate tanh|g|): equation 4 of the paper."""
    factors = list(torch._foreach_abs(grads))
    torch._foreach_tanh_(factors)
    factors = fresh(factors)
    torch._foreach_mul_(factors, per_tensor(-rate, on_host))
    torch._foreach_add_(factors, 1.0)
    torch._foreach_mul_(params, factors)


def moments_(grads: Foreach, exp_avgs: Foreach, exp_avg_sqs: Foreach, betas: tuple[float, float]) -> None:
    """m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2."""
    beta1, beta2 = betas
    torch._foreach_lerp_(exp_avgs, grads, 1 - beta1)
    torch._foreach_mul_(exp_avg_sqs, beta2)
    torch._foreach_addcmul_(exp_avg_sqs, grads, grads, 1 - beta2)


def descend_(params: Foreach, exp_avgs: Foreach, exp_avg_sqs: Foreach, step: Step, on_host: bool) -> None:
    """theta <- theta - lr m_hat / (sqrt(v_hat) + eps)."""
    beta1, beta2 = step.betas
    denominators = fresh(torch._foreach_sqrt(exp_avg_sqs))
    torch._foreach_div_(denominators, per_tensor(eq.bias_correction(beta2, step.t).sqrt(), on_host))
    torch._foreach_add_(denominators, step.eps)
    step_size = -step.lr / eq.bias_correction(beta1, step.t)
    if on_host:
        torch._foreach_addcdiv_(params, exp_avgs, denominators, step_size.tolist())
    else:  # addcdiv takes no scalars from the device
        updates = torch._foreach_div(fresh(exp_avgs), denominators)
        torch._foreach_mul_(updates, list(step_size.unbind()))
        torch._foreach_add_(params, updates)


def update_(tensors: Tensors, step: Step, on_host: bool) -> None:
    """One step for N tensors of one device and dtype, in place: decay, quantum decay, Adam.

    Args:
        tensors: the tensors, with processed gradients.
        step: what to do to them.
        on_host: the vectors may be read as numbers: they lie in host memory and nothing traces them.
    """
    params, grads, exp_avgs, exp_avg_sqs = tensors
    torch._foreach_mul_(params, per_tensor(1 - step.decay, on_host))
    if step.quantum_rate is not None:
        quantum_decay_(params, grads, step.quantum_rate, on_host)
    moments_(grads, exp_avgs, exp_avg_sqs, step.betas)
    descend_(params, exp_avgs, exp_avg_sqs, step, on_host)
