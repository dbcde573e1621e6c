"""What every execution of the update works on."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.equations import Scalar
from psilogic.norms import Foreach, is_dense


class Tensors(NamedTuple):
    """N tensors of one device and real dtype and what belongs to each: what this rank holds of them.

    Attributes:
        params: the parameters.
        grads: the gradients; an update never writes them.
        exp_avgs: Adam's first moments.
        exp_avg_sqs: Adam's second moments.
    """

    params: Foreach
    grads: Foreach
    exp_avgs: Foreach
    exp_avg_sqs: Foreach


class Step(NamedTuple):
    """What an update does to N tensors: vectors over them, and what they share.

    Attributes:
        t: step of each parameter, from 1, shape (N,).
        decay: delta, shape (N,).
        quantum_rate: lr q_t w (1 - s), shape (N,); None when quantum decay is off.
        lr: learning rate, a number or a tensor with one element.
        weight_decay: lambda, for which delta is lr lambda where nothing fires.
        betas: Adam's decay rates of the moments.
        eps: added to the denominator, outside the root.
    """

    t: Tensor
    decay: Tensor
    quantum_rate: Tensor | None
    lr: Scalar
    weight_decay: float
    betas: tuple[float, float]
    eps: float

    def of(self, chosen: slice | Tensor | list[int]) -> "Step":
        """The same for some of the tensors."""
        rate = None if self.quantum_rate is None else self.quantum_rate[chosen]
        return self._replace(t=self.t[chosen], decay=self.decay[chosen], quantum_rate=rate)


def ordinary(columns: Sequence[Foreach]) -> bool:
    """Whether all are strided tensors that lie where they say, as they are.

    Rather than what a subclass makes of other tensors, or what is still to be negated.
    """
    if any(any(map(Tensor.is_neg, xs)) for xs in columns):
        return False
    kinds: set[Any] = set().union(*(map(type, xs) for xs in columns))
    layouts = set().union(*(map(attrgetter("layout"), xs) for xs in columns))
    return layouts == {torch.strided} and all(k.__torch_dispatch__ is Tensor.__torch_dispatch__ for k in kinds)


def dtypes(columns: Sequence[Foreach]) -> set[torch.dtype]:
    """The dtypes that occur."""
    return set().union(*(map(attrgetter("dtype"), xs) for xs in columns))


def alike(columns: Sequence[Foreach], by_rows: bool) -> bool:
    """Whether the tensors of each parameter have their elements at the same places in memory, without gaps.

    With `by_rows` also whether the rows of dimension 0 lie there one after the other.

    Args:
        columns: lists of as many tensors, of each parameter one in each, such as its gradient.
        by_rows: whether rows are treated.
    """
    numels = list(map(Tensor.numel, columns[0]))
    if any(list(map(Tensor.numel, xs)) != numels for xs in columns[1:]):
        return False
    return all(all(map(Tensor.is_contiguous, xs)) for xs in columns) or all(
        _alike(row, by_rows) for row in zip(*columns, strict=True)
    )


def _alike(tensors: tuple[Tensor, ...], by_rows: bool) -> bool:
    """The same of one parameter whose tensors have equally many elements."""
    p = tensors[0]
    if all(map(Tensor.is_contiguous, tensors)):
        return True
    if any(x.shape != p.shape for x in tensors):
        return False
    strides = [[n for n, size in zip(x.stride(), p.shape, strict=True) if size > 1] for x in tensors]
    rows_first = p.ndim < 2 or len(p) < 2 or p.stride(0) * len(p) == p.numel()
    return is_dense(p) and all(x == strides[0] for x in strides) and (rows_first or not by_rows)
