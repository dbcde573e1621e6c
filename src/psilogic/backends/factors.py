"""One factor for each of many tensors, in the form that foreach operations take on a device."""

from collections.abc import Callable

import torch
from torch import Tensor

from psilogic.step import Scalar
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.memory import is_dense
from psilogic.tensors.norms import TensorList, accumulation_dtype, copied, traced

BLOCK = 1024
"""Elements that are filled with one factor at once; a tensor of another size uses a part of its last block."""


def numbers(x: Scalar) -> float | list[float]:
    """A number, or one for each tensor from a vector on the host, as foreach takes them."""
    return x.tolist() if isinstance(x, Tensor) else x


def readable(vector: Tensor) -> bool:
    """Whether the host can read the numbers of a vector at no cost: it is in host memory and the step is not traced."""
    return vector.device.type == "cpu" and not traced()


def per_tensor(vector: Tensor) -> list[float] | TensorList | None:
    """A factor for each of N tensors, shape (N,), as foreach takes it: numbers if the host can read them.

    With a list of 0-dim tensors a GPU needs a launch for each, and rounds them to half precision if the tensors have
    that. On a GPU the factors must therefore be `expanded`: None there. A traced step gets 0-dim tensors.
    """
    if readable(vector):
        return vector.tolist()
    if traced():
        return list(vector.unbind())
    return None


def expanded(vector: Tensor, tensors: TensorList, tables: DeviceTables) -> TensorList:
    """One value for each of N tensors, shape (N,), repeated in the shapes and strides of the tensors.

    In the dtype of sums; one launch for any number of tensors.
    """
    values = vector.to(accumulation_dtype(tensors[0].dtype)).unsqueeze(1).expand(-1, BLOCK)
    counts = [-(-x.numel() // BLOCK) for x in tensors]

    def owners() -> list[Tensor]:
        positions = torch.arange(len(counts), device="cpu")
        return [positions.repeat_interleave(torch.tensor(counts, device="cpu"))]

    if len(counts) == 1:
        blocks = values.expand(counts[0], -1).contiguous()
    else:
        (owner,) = tables.get("owners of blocks", counts, vector.device, owners)
        blocks = values.index_select(0, owner)
    repeated = []
    for x, blocks_of_tensor in zip(tensors, blocks.split(counts), strict=True):
        elements = blocks_of_tensor.view(-1)[: x.numel()]
        repeated.append(laid_out(x, elements))
    return repeated


def expanded_rows(by_unit: Tensor, units: list[int], tensors: TensorList, tables: DeviceTables) -> TensorList:
    """One value for each unit of N tensors, shape (U,), repeated in the shapes of the tensors.

    In the dtype of sums; one launch for all rows of the same length. `units` has the number of units of each tensor:
    rows of dimension 0, or 1.
    """
    by_length: dict[int, list[int]] = {}
    for i, (x, count) in enumerate(zip(tensors, units, strict=True)):
        by_length.setdefault(x.numel() // max(1, count), []).append(i)

    def rows() -> list[Tensor]:
        rows_of_tensors = torch.arange(sum(units), device="cpu").split(units)
        return [torch.cat([rows_of_tensors[i] for i in members]) for members in by_length.values()]

    key = [*units, *map(Tensor.numel, tensors)]
    indices = tables.get("rows by length", key, by_unit.device, rows)
    values = by_unit.to(accumulation_dtype(tensors[0].dtype)).unsqueeze(1)
    repeated = list(tensors)
    for (length, members), index in zip(by_length.items(), indices, strict=True):
        selected = values.expand(-1, length).index_select(0, index)
        parts = selected.split([units[i] for i in members])
        for i, part in zip(members, parts, strict=True):
            x = tensors[i]
            rows_first = x.ndim < 2 or x.stride(0) == length
            repeated[i] = laid_out(x, part.view(-1)) if rows_first else part.view(x.shape)
    return repeated


def laid_out(x: Tensor, elements: Tensor) -> Tensor:
    """A tensor of `x.numel()` elements in the shape of x, and in its strides if x is dense."""
    if x.is_contiguous() or not is_dense(x):
        return elements.view(x.shape)
    return elements.as_strided(x.shape, x.stride(), elements.storage_offset())


def scaled(tensors: TensorList, vector: Tensor, tables: DeviceTables) -> TensorList:
    """Each of N tensors times its value of a vector, shape (N,); half precision may be returned in float32."""
    factors = per_tensor(vector)
    if factors is not None:
        return list(torch._foreach_mul(tensors, factors))
    products = expanded(vector, tensors, tables)
    torch._foreach_mul_(products, copied(tensors, products[0].dtype))
    return products


def scale_(tensors: TensorList, vector: Tensor, tables: DeviceTables) -> None:
    """Multiply each of N tensors by its value of a vector, shape (N,), in place; half precision in float32."""
    products = applied(torch._foreach_mul_, tensors, vector, tables)
    if products[0].dtype != tensors[0].dtype:
        torch._foreach_copy_(tensors, products)


def applied(operation: Callable[..., None], tensors: TensorList, vector: Tensor, tables: DeviceTables) -> TensorList:
    """Each tensor changed by its value of a vector: in place, but half precision on a device as float32 copies."""
    factors = per_tensor(vector)
    if factors is not None:
        operation(tensors, factors)
        return tensors
    changed = copied(tensors, accumulation_dtype(tensors[0].dtype))
    operation(changed, expanded(vector, tensors, tables))
    return changed
