"""The layout of tensors in memory: address, order, gaps; and the last result of a function of such metadata."""

from array import array
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from psilogic.tensors.norms import TensorList

T = TypeVar("T")


class Sizes(NamedTuple):
    """The sizes of N tensors and of their units, as kernels take them."""

    numels: "array[int]"  # elements of each tensor
    units: "array[int]"  # units of each tensor: its rows, or 1 for the whole
    have_rows: "array[int]"  # whether each tensor has more than one dimension
    unit_count: int  # of all tensors
    have_units: bool  # whether a tensor has another number of units than 1


def sizes_of(tensors: TensorList, units: list[int]) -> Sizes:
    """The sizes of tensors with these numbers of units."""
    return Sizes(
        numels=array("q", map(Tensor.numel, tensors)),
        units=array("q", units),
        have_rows=array("q", [x.ndim > 1 for x in tensors]),
        unit_count=sum(units),
        have_units=units.count(1) < len(units),
    )


def is_dense(x: Tensor) -> bool:
    """Whether a tensor's elements are in memory without gaps or overlaps, in any order."""
    expected = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size < 2:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def flat(x: Tensor) -> Tensor:
    """The elements in the order of memory if the tensor is dense, otherwise a contiguous copy."""
    if x.is_contiguous() or not is_dense(x):
        return x.reshape(-1).contiguous()  # strided sums add in another order than sums of a copy
    return x.as_strided((x.numel(),), (1,))


def addresses(tensors: Sequence[Any], names: tuple[str, ...] = ()) -> "array[int]":
    """The addresses of N tensors, or with names of those in N dictionaries, name after name; 0 without memory."""
    if COMPILED is not None:
        return array("q", COMPILED.addresses(ADDRESS_OF, tensors, names))
    if names:
        tensors = [state[name] for name in names for state in tensors]
    return array("q", map(Tensor.data_ptr, tensors))


FUNCTIONS = ("addresses", "have_same", "with_gradient", "columns", "moved")
"""The compiled functions."""


def _load() -> tuple[Any, Any]:
    """The compiled functions that ask many tensors at once, and torch's part of them; None if they do not work."""
    try:
        compiled = import_module("psilogic.tensors._addresses")
        address_of = import_module("torch._C._dynamo.guards")._torchinductor_pyobject_tensor_data_ptr
        x = torch.zeros(3, device="cpu")
        several = [x, x[1:], torch.nn.Parameter(x), x.new_empty(0)]
        expected = array("q", map(Tensor.data_ptr, several)).tobytes()
        is_right = compiled.addresses(address_of, several, ()) == expected
        is_whole = all(hasattr(compiled, name) for name in FUNCTIONS)  # otherwise an older version has built it
        if is_right and is_whole:
            return compiled, address_of
    except Exception:  # a private part of torch, which may change
        pass
    return None, None


COMPILED, ADDRESS_OF = _load()


def refuse_released(by_name: Mapping[str, Sequence[Tensor]]) -> None:
    """RuntimeError if the memory of a tensor was released, as libraries do that keep it elsewhere."""
    for name, tensors in by_name.items():
        for i, tensor in enumerate(tensors):
            if tensor.numel() > 0 and tensor.data_ptr() == 0:
                raise RuntimeError(
                    f"{name}[{i}], of shape {tuple(tensor.shape)}, has no memory: something has released its storage, "
                    "which must have its size and values again before the step"
                )


def turns(addresses_of_params: Sequence[int]) -> list[list[int]]:
    """The positions of parameters in turns: in none of them have two parameters an address in common.

    Parameters with the same address keep their order. An address of 0 is none.
    """
    earlier: Counter[int] = Counter()
    by_turn: list[list[int]] = [[]]
    for i, address in enumerate(addresses_of_params):
        turn = earlier[address]
        if turn == len(by_turn):
            by_turn.append([])
        by_turn[turn].append(i)
        if address != 0:
            earlier[address] += 1
    return by_turn


def used_addresses(tensors: TensorList) -> list[int]:
    """The addresses of tensors that are not empty."""
    return list(filter(None, addresses(tensors)))


def ordinary(columns: Sequence[TensorList]) -> bool:
    """Whether all are strided tensors whose memory holds their values.

    That of tensor subclasses that wrap other tensors does not, nor that of lazily negated tensors.
    """
    for xs in columns:
        if any(map(Tensor.is_neg, xs)):
            return False
    layouts: set[Any] = set()
    of_class: dict[Any, Tensor] = {}
    for xs in columns:
        layouts.update(map(attrgetter("layout"), xs))
        of_class.update(zip(map(type, xs), xs, strict=True))
    if layouts != {torch.strided}:
        return False
    return not any(map(has_own_dispatch, of_class.values()))


def has_own_dispatch(x: Tensor) -> bool:
    """Whether the class of a tensor says itself what operations do, as one that wraps other tensors."""
    return type(x).__torch_dispatch__ is not Tensor.__torch_dispatch__


def uniform(dtypes: Container[torch.dtype], columns: Sequence[TensorList], by_rows: bool) -> bool:
    """Whether a kernel can run through their memory: all are ordinary, of one of some dtypes, in the same layouts."""
    return have_one_dtype(dtypes, columns) and ordinary(columns) and same_layouts(columns, by_rows)


def have_one_dtype(dtypes: Container[torch.dtype], columns: Sequence[TensorList]) -> bool:
    """Whether all tensors have the same dtype, which is one of some."""
    found: set[torch.dtype] = set()
    for xs in columns:
        found.update(map(attrgetter("dtype"), xs))
    return len(found) == 1 and found.pop() in dtypes


def have_same_numels(columns: Sequence[TensorList]) -> bool:
    """Whether the tensors of each parameter (one of each column) have as many elements."""
    numels = list(map(Tensor.numel, columns[0]))
    return all(list(map(Tensor.numel, xs)) == numels for xs in columns[1:])


def same_layouts(columns: Sequence[TensorList], by_rows: bool) -> bool:
    """Whether the tensors of each parameter (one of each column) have the same layout in memory, without gaps.

    With `by_rows` also whether the rows of dimension 0 are there one after the other.
    """
    if not have_same_numels(columns):
        return False
    if all(all(map(Tensor.is_contiguous, xs)) for xs in columns):
        return True
    return all(_same_layout(tensors, by_rows) for tensors in zip(*columns, strict=True))


def _same_layout(tensors: tuple[Tensor, ...], by_rows: bool) -> bool:
    """The same for one parameter: itself, its gradient and its moments."""
    if all(map(Tensor.is_contiguous, tensors)):
        return True
    p = tensors[0]
    strides = used_strides(p)
    for x in tensors:
        if x.shape != p.shape or used_strides(x) != strides:
            return False
    if not is_dense(p):
        return False
    return are_rows_first(p) or not by_rows


def are_rows_first(x: Tensor) -> bool:
    """Whether the rows of dimension 0 of a tensor without gaps are in memory one after the other."""
    return x.ndim < 2 or len(x) < 2 or x.stride(0) * len(x) == x.numel()


def used_strides(x: Tensor) -> list[int]:
    """The strides of the dimensions that have more than one element."""
    return [stride for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1]


def _are_strided(tensors: TensorList) -> bool:
    """Whether all tensors have strides, which a guard compares."""
    return all(x.layout == torch.strided for x in tensors)


def _load_guards() -> Any:
    """The class of torch.compile's guards; None if it does not behave as expected."""
    try:
        kind: Any = import_module("torch._C._dynamo.guards").TensorGuards
        x = torch.empty(2, 3, device="cpu")
        guard = kind(x, dynamic_dims_sizes=[[2, 3]], dynamic_dims_strides=[[3, 1]])
        others = [x.double(), x.reshape(3, 2), x.new_empty(3, 2).t(), torch._neg_view(x)]
        if guard.check(x) and not any(map(guard.check, others)):
            return kind
    except Exception:  # a private part of torch, which may change
        pass
    return None


TensorGuards = _load_guards()


def guard_of(tensors: TensorList) -> Any:
    """A guard that knows these tensors' metadata, and keeps none of them; None where there are no guards."""
    if TensorGuards is None or not _are_strided(tensors):
        return None
    sizes = [list(x.shape) for x in tensors]
    strides = [list(x.stride()) for x in tensors]
    return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)


class MetadataCache:
    """Caches the last result of a function of a list of tensors.

    Reading dtype, layout, shape and strides of hundreds of tensors one after the other takes as long as the update of
    small ones. A guard compares all of them in a single call.
    """

    def __init__(self) -> None:
        self._key: Any = None
        self._result: Any = None
        self._guard: Any = None

    def get(self, key: Any, tensors: TensorList, compute: Callable[[], T | None]) -> T | None:
        """The result of `compute`, called only if the key or the tensors' metadata changed; None is not kept.

        Metadata are class, device, dtype, layout, shape and strides; all else that the result depends on is in the key.
        """
        same_key = key == self._key
        if same_key and self._guard is not None and self._guard.check(*tensors):
            return self._result  # type: ignore[no-any-return]
        result = compute()
        self._key = key
        self._result = result
        self._guard = None
        if same_key and result is not None:  # a guard is as costly as ten comparisons: when a key occurs again
            self._guard = guard_of(tensors)
        return result
