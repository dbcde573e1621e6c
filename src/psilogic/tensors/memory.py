"""How tensors lie in memory: where, in which order, with or without gaps."""

from array import array
from collections.abc import Sequence
from importlib import import_module
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from psilogic.tensors.norms import Foreach


def is_dense(x: Tensor) -> bool:
    """Whether a tensor's elements lie in memory without gaps or overlaps, in whatever order."""
    expected = 1
    for stride, size in sorted((n, size) for n, size in zip(x.stride(), x.shape, strict=True) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def flat(x: Tensor) -> Tensor:
    """The elements in the order of memory where they lie there without gaps, else a copy of them."""
    if x.is_contiguous() or not is_dense(x):
        return x.reshape(-1).contiguous()  # a sum with a stride would add in another order than that of a copy
    return x.as_strided((x.numel(),), (1,))


def addresses(tensors: Sequence[Any], name: str | None = None) -> "array[int]":
    """Where the elements of N tensors begin; 0 for those that have none, or none in memory.

    Args:
        tensors: a list of tensors, or of dictionaries.
        name: under which each dictionary has its tensor.
    """
    if ALL_AT_ONCE is not None:
        return array("q", ALL_AT_ONCE(ADDRESS_OF, tensors) if name is None else ALL_AT_ONCE(ADDRESS_OF, tensors, name))
    return array("q", map(Tensor.data_ptr, tensors if name is None else [x[name] for x in tensors]))


def _load() -> tuple[Any, Any]:
    """What asks for all addresses in one call, if it was compiled and does what it should, and torch's part of it."""
    try:
        all_at_once = import_module("psilogic.tensors._addresses").addresses
        address_of = import_module("torch._C._dynamo.guards")._torchinductor_pyobject_tensor_data_ptr
        x = torch.zeros(3, device="cpu")
        several = [x, x[1:], torch.nn.Parameter(x), x.new_empty(0)]
        expected = array("q", map(Tensor.data_ptr, several))
        return (all_at_once, address_of) if array("q", all_at_once(address_of, several)) == expected else (None, None)
    except Exception:  # not part of torch's interface: it may change in any way
        return None, None


ALL_AT_ONCE, ADDRESS_OF = _load()


def places(tensors: Foreach) -> list[int]:
    """Where tensors begin; empty ones lie nowhere."""
    return list(filter(None, addresses(tensors)))


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
