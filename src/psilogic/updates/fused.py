"""The update on a CPU through torch's fused AdamW: one pass over a tensor, its gradient and its moments.

A block of gradients is centered and scaled right before the pass over it, while it is in cache. The additional memory
is that of one block.
"""

from functools import partial
from itertools import groupby

import torch
from torch import Tensor

from psilogic.decision import Step
from psilogic.gradients import measure
from psilogic.tensors.memory import uniform
from psilogic.tensors.norms import Foreach, accumulation_dtype
from psilogic.updates.foreach import batches, process
from psilogic.updates.types import Execution, Tensors, Work

BLOCK = 1 << 18
"""The most elements of a block: its additional memory is 1 MB in float32, and stays in cache."""
DTYPES = {torch.float32, torch.float64, torch.bfloat16, torch.float16}


def finish(work: Work, found_inf: Tensor | None) -> None:
    """Update the tensors block by block, or all at once if nothing but torch's kernel changes them."""
    step, tensors = work.step, work.tensors
    if step.quantum_rate is None and work.mean is None and work.scale is None:
        adamw_(tensors, step)
        return
    columns = [tensors.grads, tensors.params, tensors.exp_avgs, tensors.exp_avg_sqs]
    for batch in batches(work.owned, columns, BLOCK):
        grads, (_, params, *moments), of_batch = process(work, batch), batch.columns, step.of(batch.tensors)
        if of_batch.quantum_rate is not None:
            _quantum_decay_(params, grads, of_batch.quantum_rate.tolist())
        adamw_(Tensors(params, grads, *moments), of_batch)
        del grads  # frees the memory that the next block needs


def _quantum_decay_(params: Foreach, grads: Foreach, rates: list[float]) -> None:
    """theta <- theta (1 - rate tanh|g|), with tanh|g| = 2 sigmoid(2|g|) - 1: several times as fast on a CPU.

    The subtraction loses digits of a small tanh, but not of the factor, which is close to 1 then. Half precision is
    decayed in float32.
    """
    for p, g, rate in zip(params, grads, rates, strict=True):
        factor = g.to(accumulation_dtype(g.dtype)).abs()
        p.mul_(factor.mul_(2).sigmoid_().sub_(0.5).mul_(-2 * rate).add_(1))


def adamw_(tensors: Tensors, step: Step) -> None:
    """Decay and Adam for N tensors that `supports` accepts, with processed gradients, in place.

    One call of torch's kernel for each run of tensors with the same numbers. Weight decay has no rounding that AdamW
    does not have: it is lambda itself, and delta / lr where a tensor fires.
    """
    steps, deltas = step.t.tolist(), step.decay.tolist()
    clocks = {t: torch.tensor(t, dtype=torch.float64, device="cpu") for t in set(steps)}
    numbers = (torch.as_tensor(x, dtype=torch.float64, device="cpu") for x in step[3:])
    columns = zip(deltas, *(x.expand_as(step.t).tolist() for x in numbers), strict=True)
    every = [(lr, x if delta == lr * x else delta / lr, *rest) for delta, lr, x, *rest in columns]
    start = 0
    for (lr, weight_decay, eps, beta1, beta2), run in groupby(every):
        end = start + len(list(run))
        params, grads, exp_avgs, exp_avg_sqs = (xs[start:end] for xs in tensors)
        torch._fused_adamw_(
            params, grads, exp_avgs, exp_avg_sqs, [], [clocks[t] for t in steps[start:end]], lr=lr, beta1=beta1,
            beta2=beta2, weight_decay=weight_decay, eps=eps, amsgrad=False, maximize=False,
        )  # fmt: skip
        start = end


execution = Execution("fused", partial(uniform, DTYPES), lambda work: measure(work.bucket), finish)
