"""The order of elements in memory: kernels run through the tensors of a parameter side by side.

Parameter, gradient and moments may lie in memory in different ways: a gradient may be transposed, a parameter may be a
part of a larger tensor. A call gets copies of those that lie in another way than the kernels need.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from psilogic.tensors.memory import are_rows_first, have_same_numels, is_dense, used_strides
from psilogic.tensors.norms import TensorList

GRADIENTS = 1
"""The position of the column of gradients, after that of parameters."""


class Odd(NamedTuple):
    """A tensor that lies in memory in another way than the kernels need."""

    column: int  # the position of its column
    position: int  # its position in the column
    strides: tuple[int, ...]  # those that the kernels need


class Ordered:
    """Columns of tensors in the order that the kernels need: copies in place of the odd ones."""

    def __init__(self, columns: list[TensorList], odd: list[Odd]) -> None:
        self.columns = list(map(list, columns))
        # The copies that are written back, and what they are copies of.
        self._copies: TensorList = []
        self._originals: TensorList = []
        originals: TensorList = []
        copies: TensorList = []
        for column, position, strides in odd:
            original = columns[column][position]
            copy = torch.empty_strided(original.shape, strides, dtype=original.dtype, device="cpu")
            self.columns[column][position] = copy
            originals.append(original)
            copies.append(copy)
            if column != GRADIENTS:  # which no step writes
                self._originals.append(original)
                self._copies.append(copy)
        torch._foreach_copy_(copies, originals)

    def write_back(self) -> None:
        """Set the tensors from their copies."""
        if self._originals:
            torch._foreach_copy_(self._originals, self._copies)


def can_be_ordered(columns: Sequence[TensorList]) -> bool:
    """Whether the tensors of each parameter have as many elements, and odd ones can be copied and set from a copy.

    Elements of a gradient may share memory, as those of an expanded one; those of other tensors must not.
    """
    if not have_same_numels(columns):
        return False
    if all(all(map(Tensor.is_contiguous, xs)) for xs in columns):
        return True
    for tensors in zip(*columns, strict=True):
        if all(map(Tensor.is_contiguous, tensors)):
            continue
        shape = tensors[0].shape
        for column, x in enumerate(tensors):
            if x.shape != shape:
                return False
            if column != GRADIENTS and not _are_elements_apart(x):
                return False
    return True


def _are_elements_apart(x: Tensor) -> bool:
    """Whether no two elements of a tensor share memory; False also where strides alone do not say so."""
    least = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size < 2:
            continue
        if stride < least:
            return False
        least = stride * size
    return True


def odd_tensors(columns: Sequence[TensorList], by_rows: bool) -> list[Odd]:
    """The tensors that lie in memory in another way than the kernels need.

    That is the way of the parameter, if its elements are there without gaps, and otherwise that of a contiguous tensor.
    With `by_rows` the rows of dimension 0 must be there one after the other.
    """
    odd: list[Odd] = []
    if all(all(map(Tensor.is_contiguous, xs)) for xs in columns):
        return odd
    for position, tensors in enumerate(zip(*columns, strict=True)):
        if all(map(Tensor.is_contiguous, tensors)):
            continue
        like = tensors[0]
        if not is_in_lines(like, by_rows):
            like = torch.empty(like.shape, device="meta")
        strides = used_strides(like)
        for column, x in enumerate(tensors):
            if used_strides(x) != strides:
                odd.append(Odd(column, position, like.stride()))
    return odd


def in_lines(tensors: TensorList, units: list[int]) -> TensorList:
    """The tensors without gaps, and their units one after the other: copies of those that lie otherwise.

    Args:
        tensors: the tensors.
        units: the number of units of each: 1 for the whole tensor, or its rows of dimension 0.
    """
    if all(map(Tensor.is_contiguous, tensors)):
        return tensors
    arranged: TensorList = []
    for x, count in zip(tensors, units, strict=True):
        if is_in_lines(x, by_rows=count > 1):
            arranged.append(x)
        else:
            arranged.append(x.contiguous())
    return arranged


def is_in_lines(x: Tensor, by_rows: bool) -> bool:
    """Whether a tensor has no gaps, and with `by_rows` its rows of dimension 0 are in memory one after the other."""
    return is_dense(x) and (are_rows_first(x) or not by_rows)
