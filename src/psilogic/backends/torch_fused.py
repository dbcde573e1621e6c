"""The update on a CPU through torch's fused AdamW: one pass over a tensor, its gradient and its moments.

A block of gradients is centered and scaled right before the pass over it, while it is in cache. The additional memory
is that of one block.
"""

from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from psilogic.backends.batches import batches
from psilogic.backends.by_torch import ByTorch
from psilogic.backends.foreach import processed_grads
from psilogic.step import BucketStep, Scalar, Step, Tensors
from psilogic.tensors.memory import uniform
from psilogic.tensors.norms import TensorList, accumulation_dtype

BLOCK = 1 << 18
"""The most elements of a block: its additional memory is 1 MB in float32, and stays in cache."""


class TorchFused(ByTorch):
    """Torch's kernel for AdamW, which the decay of tensors that fire is passed to as weight decay."""

    name = "fused"
    dtypes = frozenset({torch.float32, torch.float64, torch.bfloat16, torch.float16})

    def supports(self, tensors: Tensors, by_rows: bool) -> bool:
        """Whether the kernel can update these tensors, which are on the CPU."""
        return uniform(self.dtypes, tensors, by_rows)

    def finish(self, work: BucketStep, found_inf: Tensor | None) -> None:
        """Update the tensors block by block, or all at once if nothing but torch's kernel changes them."""
        if work.step.quantum_rate is None and work.mean is None and work.scale is None:
            adamw_(work.tensors, work.step)
            return
        params, grads, exp_avgs, exp_avg_sqs = work.tensors
        for batch in batches(work.owned, [grads, params, exp_avgs, exp_avg_sqs], BLOCK):
            _, params, exp_avgs, exp_avg_sqs = batch.columns
            processed = processed_grads(work, batch)
            step = work.step.take(batch.tensors)
            if step.quantum_rate is not None:
                _quantum_decay_(params, processed, step.quantum_rate.tolist())
            adamw_(Tensors(params, processed, exp_avgs, exp_avg_sqs), step)
            del processed  # frees the memory that the next block needs


def _quantum_decay_(params: TensorList, grads: TensorList, rates: list[float]) -> None:
    """theta <- theta (1 - rate tanh|g|), with tanh|g| = 2 sigmoid(2|g|) - 1: several times as fast on a CPU.

    The subtraction loses digits of a small tanh, but not of the factor, which is close to 1 then. Half precision is
    decayed in float32.
    """
    for p, g, rate in zip(params, grads, rates, strict=True):
        factor = g.to(accumulation_dtype(g.dtype)).abs()
        half_tanh = factor.mul_(2).sigmoid_().sub_(0.5)
        p.mul_(half_tanh.mul_(-2 * rate).add_(1))


class Numbers(NamedTuple):
    """The numbers of AdamW for one tensor."""

    lr: float
    weight_decay: float
    eps: float
    beta1: float
    beta2: float


def adamw_(tensors: Tensors, step: Step) -> None:
    """Decay and Adam for N tensors that `supports` accepts, with processed gradients, in place.

    One call of torch's kernel for each run of tensors with the same numbers.
    """
    t_of_each = step.t.tolist()
    clocks = {t: torch.tensor(t, dtype=torch.float64, device="cpu") for t in set(t_of_each)}
    start = 0
    for numbers, run in groupby(_numbers_of_each(step)):
        end = start + len(list(run))
        torch._fused_adamw_(
            tensors.params[start:end],
            tensors.grads[start:end],
            tensors.exp_avgs[start:end],
            tensors.exp_avg_sqs[start:end],
            [],
            [clocks[t] for t in t_of_each[start:end]],
            lr=numbers.lr,
            beta1=numbers.beta1,
            beta2=numbers.beta2,
            weight_decay=numbers.weight_decay,
            eps=numbers.eps,
            amsgrad=False,
            maximize=False,
        )
        start = end


def _numbers_of_each(step: Step) -> list[Numbers]:
    """The numbers of each tensor.

    Weight decay has no rounding that AdamW does not have: it is lambda itself, and delta / lr where a tensor fires.
    """
    columns = zip(
        step.decay.tolist(),
        _for_each(step.lr, step.t),
        _for_each(step.weight_decay, step.t),
        _for_each(step.eps, step.t),
        _for_each(step.beta1, step.t),
        _for_each(step.beta2, step.t),
        strict=True,
    )
    numbers = []
    for decay, lr, weight_decay, eps, beta1, beta2 in columns:
        if decay != lr * weight_decay:
            weight_decay = decay / lr
        numbers.append(Numbers(lr, weight_decay, eps, beta1, beta2))
    return numbers


def _for_each(number: Scalar, t: Tensor) -> list[float]:
    """A hyperparameter's number for each tensor, of which t has the steps."""
    vector = torch.as_tensor(number, dtype=torch.float64, device="cpu")
    numbers: list[float] = vector.expand_as(t).tolist()
    return numbers


backend = TorchFused()
