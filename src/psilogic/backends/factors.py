"""The numbers of an update of many tensors, in the form that foreach operations take on a device."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.step import Scalar, Step
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.memory import is_dense
from psilogic.tensors.norms import TensorList, accumulation_dtype, copied, traced

EachFactor = list[float] | Tensor
"""A factor for each of N tensors: numbers that the host has read; or a vector, shape (N,), where it cannot."""
BLOCK = 1024
"""Elements that are filled with one factor at once; a tensor of another size uses a part of its last block."""


class Factors(NamedTuple):
    """The numbers of an update of N tensors, from which each of its batches takes those of its tensors."""

    keep: Any  # 1 - delta
    minus_quantum_rate: Any  # -lr q_t w (1 - s); None when quantum decay is off
    root2: Any  # sqrt(1 - beta2^t)
    minus_step_size: Any  # -lr / (1 - beta1^t)
    weight1: Any  # 1 - beta1; like the next ones a number for all tensors, or a list
    beta2: Any
    weight2: Any  # 1 - beta2
    eps: Any

    def take(self, chosen: slice | int) -> "Factors":
        """Those of the chosen tensors; of one tensor each is a number, or a 0-dim tensor where none can be read."""
        columns: list[Any] = []
        for column in self:
            if isinstance(column, list | Tensor):
                columns.append(column[chosen])
            else:
                columns.append(column)
        return Factors(*columns)


def factors_of(step: Step) -> Factors:
    """The numbers of a step."""
    minus_quantum_rate = None
    if step.quantum_rate is not None:
        minus_quantum_rate = readable_numbers(-step.quantum_rate)
    return Factors(
        keep=readable_numbers(1 - step.decay),
        minus_quantum_rate=minus_quantum_rate,
        root2=readable_numbers((1 - step.beta2**step.t).sqrt()),
        minus_step_size=readable_numbers(-step.lr / (1 - step.beta1**step.t)),
        weight1=numbers(1 - step.beta1),
        beta2=numbers(step.beta2),
        weight2=numbers(1 - step.beta2),
        eps=numbers(step.eps),
    )


def readable_numbers(vector: Tensor) -> EachFactor:
    """The numbers of a vector, shape (N,), where the host can read them; otherwise the vector."""
    if readable(vector):
        each: list[float] = vector.tolist()
        return each
    return vector


def numbers(x: Scalar) -> float | list[float]:
    """A number, or one for each tensor from a vector on the host, as foreach takes them."""
    return x.tolist() if isinstance(x, Tensor) else x


def readable(vector: Tensor) -> bool:
    """Whether the host can read the numbers of a vector at no cost: it is in host memory and the step is not traced."""
    return vector.device.type == "cpu" and not traced()


def per_tensor(factors: EachFactor) -> list[float] | TensorList | None:
    """A factor for each of N tensors as foreach takes it: numbers if the host has read them.

    With a list of 0-dim tensors a GPU needs a launch for each, and rounds them to half precision if the tensors have
    that. On a GPU the factors must therefore be `expanded`: None there. A traced step gets 0-dim tensors.
    """
    if isinstance(factors, list):
        return factors
    if traced():
        return list(factors.unbind())
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
    by_tensor = per_tensor(readable_numbers(vector))
    if by_tensor is not None:
        return list(torch._foreach_mul(tensors, by_tensor))
    products = expanded(vector, tensors, tables)
    torch._foreach_mul_(products, copied(tensors, products[0].dtype))
    return products


def scale_(tensors: TensorList, factors: EachFactor, tables: DeviceTables) -> None:
    """Multiply each of N tensors by its factor, in place; half precision in float32."""
    products = applied(torch._foreach_mul_, tensors, factors, tables)
    if products[0].dtype != tensors[0].dtype:
        torch._foreach_copy_(tensors, products)


def applied(
    operation: Callable[..., None], tensors: TensorList, factors: EachFactor, tables: DeviceTables
) -> TensorList:
    """Each tensor changed by its factor: in place, but half precision on a device as float32 copies."""
    by_tensor = per_tensor(factors)
    if by_tensor is not None:
        operation(tensors, by_tensor)
        return tensors
    assert isinstance(factors, Tensor)  # since the host has not read its numbers
    changed = copied(tensors, accumulation_dtype(tensors[0].dtype))
    operation(changed, expanded(factors, tensors, tables))
    return changed
