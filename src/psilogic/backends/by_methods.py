"""The update of one tensor after the other, by the tensors' own methods, as torch's AdamW calls them.

For classes that change what such a method does, for tensors that torch.func transforms or that have tangents, and for
lazily negated ones: foreach knows none of them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from psilogic.backends.by_torch import ByTorch
from psilogic.backends.factors import Factors, factors_of
from psilogic.step import BucketStep, Tensors
from psilogic.tensors.buckets import broadcast_units
from psilogic.tensors.norms import TensorList, as_real

METHODS = ("mul_", "lerp_", "addcmul_", "addcdiv_", "add_", "sub_", "div_", "copy_")
"""The methods by which an optimizer changes a tensor."""
USUAL: Any = Tensor.__torch_function__.__func__  # type: ignore[attr-defined]
"""What a class without a `__torch_function__` of its own has."""


class ByMethods(ByTorch):
    """The tensors' own methods."""

    name = "methods"

    def supports(self, tensors: Tensors, by_rows: bool) -> bool:
        """Every tensor."""
        return True

    def finish(self, work: BucketStep, found_inf: Tensor | None) -> None:
        """Update one tensor after the other."""
        factors = factors_of(work.step)
        tensors = work.tensors._replace(grads=as_real(processed_grads(work)))
        for i, (p, g, exp_avg, exp_avg_sq) in enumerate(zip(*tensors, strict=True)):
            adam_(p, g.to(p.dtype), exp_avg, exp_avg_sq, factors.take(i))


def has_own_methods(kind: Any) -> bool:
    """Whether a class of tensors changes what one of these methods does."""
    if kind is Tensor or kind is Parameter:
        return False
    of_functions = kind.__torch_function__
    of_functions = getattr(of_functions, "__func__", of_functions)
    if of_functions is not USUAL and of_functions is not torch._C._disabled_torch_function_impl:
        return True
    return any(getattr(kind, name) is not getattr(Tensor, name) for name in METHODS)


def is_negated(x: Tensor) -> bool:
    """Whether a tensor is lazily negated, as the imaginary part of a conjugate: foreach cannot write it."""
    return not torch.compiler.is_compiling() and x.is_neg()


def processed_grads(work: BucketStep) -> TensorList:
    """scale (g - mean) of each tensor; `p.grad` is not changed."""
    bucket = work.owned
    grads = bucket.grads
    pieces = [] if bucket.ranks is None else bucket.pieces
    if work.mean is not None:
        means = broadcast_units(work.mean, bucket.units, grads, pieces)
        grads = [g - mean for g, mean in zip(grads, means, strict=True)]
    if work.scale is not None:
        scales = broadcast_units(work.scale, bucket.units, grads, pieces)
        grads = [g * scale for g, scale in zip(grads, scales, strict=True)]
    return grads


def adam_(p: Tensor, g: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, factors: Factors) -> None:
    """One step of a tensor with a processed gradient: decay, quantum decay, Adam."""
    p.mul_(factors.keep)
    if factors.minus_quantum_rate is not None:
        p.mul_(1 + factors.minus_quantum_rate * g.abs().tanh())
    exp_avg.lerp_(g, factors.weight1)
    exp_avg_sq.mul_(factors.beta2).addcmul_(g, g, value=factors.weight2)
    denominator = (exp_avg_sq.sqrt() / factors.root2).add_(factors.eps)
    if isinstance(factors.minus_step_size, Tensor):  # addcdiv takes no factor from the device
        p.addcdiv_(exp_avg, denominator / factors.minus_step_size)
    else:
        p.addcdiv_(exp_avg, denominator, value=factors.minus_step_size)


backend = ByMethods()
