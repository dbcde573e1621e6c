"""The update on a CPU through torch's fused AdamW: one pass over a tensor, its gradient and its moments.

A block of gradients is centered and scaled right before the pass over it, while it is in cache. The additional memory
is that of one block.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import Tensor

from psilogic.gradients import Statistics, measure
from psilogic.tensors.buckets import spread_units
from psilogic.tensors.memory import alike, dtypes, flat, ordinary
from psilogic.tensors.norms import Foreach, accumulation_dtype
from psilogic.updates.types import Execution, Step, Tensors, UpdatePlan, Work

BLOCK = 1 << 18
"""The most elements of a block: its additional memory is 1 MB in float32, and stays in cache."""
DTYPES = {torch.float32, torch.float64, torch.bfloat16, torch.float16}


def supports(columns: Tensors, by_rows: bool) -> bool:
    """Whether torch's kernel can update these tensors on the CPU.

    They must be ordinary tensors of one dtype. Those of a parameter must have the same layout in memory, without gaps,
    and with `by_rows` one row after the other.
    """
    kinds = dtypes(columns)
    return len(kinds) == 1 and kinds <= DTYPES and ordinary(columns) and alike(columns, by_rows)


def finish(work: Work, begun: Statistics, plan: UpdatePlan, found_inf: Tensor | None) -> None:
    """Update the tensors with rows, and the tensors that are one unit each, which are scaled by a number."""
    bucket, tensors, step = work.owned, work.tensors, plan.step
    mean, scale = plan.mean, plan.scale
    numbers = None if scale is None else scale.tolist()
    if not bucket.by_rows:
        adamw_(tensors, step, None, numbers)
        return
    with_rows = [x.ndim > 1 for x in bucket.values]
    first_units = list(accumulate(bucket.units, initial=0))
    for of_rows in set(with_rows):
        chosen = [i for i, has_rows in enumerate(with_rows) if has_rows == of_rows]
        part = tensors.of(chosen), step.of(chosen)
        if of_rows:
            spread = (None if x is None else spread_units(x, bucket.units, bucket.grads) for x in (mean, scale))
            adamw_(*part, *(x and [x[i] for i in chosen] for x in spread))
        else:  # the mean is 0
            adamw_(*part, None, numbers and [numbers[first_units[i]] for i in chosen])


def adamw_(tensors: Tensors, step: Step, means: Foreach | None, scales: Foreach | list[float] | None) -> None:
    """One step for N tensors that `supports` accepts, in place: mean and scale, decay, quantum decay, Adam.

    Args:
        tensors: with unprocessed gradients.
        step: how to update them.
        means: subtracted from each gradient, as tensors that broadcast with it; None for 0.
        scales: multiply it after that: such tensors, or a number for each; None for 1.
    """
    none = [None] * len(tensors.params)
    rates = None if step.quantum_rate is None else step.quantum_rate.tolist()
    extras = (none if x is None else x for x in (rates, means, scales))
    columns = [*tensors, _clocks(step.t), _rates_and_decays(step), *extras]
    if rates is None and means is None and scales is None:
        _adamw_(columns, step)
        return
    for params, grads, *others, rate, mean, scale in _blocks(columns, BLOCK):
        grads = _processed(grads, None if means is None else mean, None if scales is None else scale)
        if rates is not None:
            _quantum_decay_(params, grads, rate)
        _adamw_([params, grads, *others], step)
        del grads  # frees the memory that the next block needs


def _processed(grads: Foreach, means: Foreach | None, scales: Foreach | list[float] | None) -> Foreach:
    """scale (g - mean), part by part; half precision is centered and scaled in float32."""
    dtype, processed = grads[0].dtype, grads
    if means is not None:
        processed = [g - mean for g, mean in zip(grads, means, strict=True)]
    if scales is not None and means is not None:
        torch._foreach_mul_(processed, scales)
    elif scales is not None:
        processed = list(torch._foreach_mul(grads, scales))
    return processed if processed[0].dtype == dtype else [g.to(dtype) for g in processed]


def _quantum_decay_(params: Foreach, grads: Foreach, rates: list[float]) -> None:
    """theta <- theta (1 - rate tanh|g|), with tanh|g| = 2 sigmoid(2|g|) - 1: several times as fast on a CPU.

    The subtraction loses digits of a small tanh, but not of the factor, which is close to 1 then. Half precision is
    decayed in float32.
    """
    for p, g, rate in zip(params, grads, rates, strict=True):
        factor = g.to(accumulation_dtype(g.dtype)).abs()
        p.mul_(factor.mul_(2).sigmoid_().sub_(0.5).mul_(-2 * rate).add_(1))


def _adamw_(block: Sequence[Any], step: Step) -> None:
    """torch's fused AdamW, one call for each run of parts with the same learning rate and weight decay."""
    start = 0
    for (lr, weight_decay), run in groupby(block[5]):
        end = start + len(list(run))
        params, grads, exp_avgs, exp_avg_sqs, clocks = (column[start:end] for column in block[:5])
        torch._fused_adamw_(
            params, grads, exp_avgs, exp_avg_sqs, [], clocks, lr=lr, beta1=step.betas[0], beta2=step.betas[1],
            weight_decay=weight_decay, eps=step.eps, amsgrad=False, maximize=False,
        )  # fmt: skip
        start = end


def _rates_and_decays(step: Step) -> list[tuple[float, float]]:
    """The learning rate and weight decay of each tensor; the latter has no rounding that AdamW does not have.

    It is lambda itself, and delta / lr where a tensor fires.
    """
    rates, lambdas = (
        torch.as_tensor(x, dtype=torch.float64, device="cpu").expand_as(step.t).tolist()
        for x in (step.lr, step.weight_decay)
    )
    deltas = step.decay.tolist()
    return [(lr, x if delta == lr * x else delta / lr) for lr, x, delta in zip(rates, lambdas, deltas, strict=True)]


def _clocks(t: Tensor) -> Foreach:
    """The step of each parameter as a 0-dim tensor; parameters with the same step share a tensor."""
    steps = t.tolist()
    shared = {step: torch.tensor(step, dtype=torch.float64, device="cpu") for step in set(steps)}
    return [shared[step] for step in steps]


def _blocks(columns: list[Any], size: int) -> Iterator[list[list[Any]]]:
    """The columns of N tensors in blocks of at most `size` elements; larger tensors are divided into parts.

    Args:
        columns: the four lists of `Tensors`, and lists of values for each tensor. A value with dimensions has one
            element for each row of the tensor, or one for all rows; any other value holds for all parts.
        size: the most elements of a block.

    Yields:
        The columns of the parts.
    """
    block: list[tuple[Any, ...]] = []
    count = 0
    for row in zip(*columns, strict=True):
        for part in _parts(row, size):
            numel = part[0].numel()
            if count + numel > size:
                yield [list(column) for column in zip(*block, strict=True)]
                block, count = [], 0
            block.append(part)
            count += numel
    yield [list(column) for column in zip(*block, strict=True)]


def _parts(row: tuple[Any, ...], size: int) -> list[tuple[Any, ...]]:
    """The columns of one tensor as parts of at most `size` elements: whole rows if these are small enough."""
    p, others = row[0], row[4:]
    if p.numel() <= size:
        return [row]
    by_row = [isinstance(x, Tensor) and x.ndim > 0 for x in others]
    if any(has_rows and len(x) > 1 for x, has_rows in zip(others, by_row, strict=True)):
        rows = max(1, size * len(p) // p.numel())
        count = -(-len(p) // rows)
        split = [x.split(rows) for x in row[:4]]
        split += [x.split(rows) if has_rows else [x] * count for x, has_rows in zip(others, by_row, strict=True)]
        return [part for piece in zip(*split, strict=True) for part in _parts(piece, size)]
    count = -(-p.numel() // size)
    whole = [[x.reshape(-1) if has_rows else x] * count for x, has_rows in zip(others, by_row, strict=True)]
    return list(zip(*(flat(x).split(size) for x in row[:4]), *whole, strict=True))


execution = Execution("fused", supports, lambda work, pre_step: measure(work.bucket), finish)
